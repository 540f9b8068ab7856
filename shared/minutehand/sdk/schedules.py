"""The SDK's schedules: create, update, pause, resume, delete, get, list."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar, Unpack

from minutehand import views
from minutehand.arguments import MAX_DESCRIPTION, checked_limit, checked_tags, checked_text
from minutehand.errors import InvalidInput, NotFound
from minutehand.flow import close as closing
from minutehand.flow import create as creating
from minutehand.model.names import check_name
from minutehand.model.options import OptionWords
from minutehand.model.policies import Overrides, Retry, overrides
from minutehand.model.schedule import Definition, Head, Revision, ScheduleState
from minutehand.schedule import Rule, fires, timetable
from minutehand.sdk.base import UNSET, Base
from minutehand.views import Page, Schedule

_T = TypeVar("_T")
_UPCOMING = 5  # next fires that get_schedule shows
_READ = 25  # heads that are read at once at least: many deleted ones in a row must not cost a query each


class Schedules(Base):
    """Schedules of one tenant."""

    def create_schedule(
        self,
        name: str,
        job: str,
        expression: str | Sequence[str] | Rule,
        *,
        timezone: str | None = None,
        payload: Any = None,
        description: str = "",
        tags: Mapping[str, str] | None = None,
        delivery: str | None = None,
        start: str | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        deadline: float | None = None,
        **options: Unpack[OptionWords],
    ) -> Schedule:
        """Create a schedule and arm it: a fire that is due in five seconds starts in five seconds.

        ``expression`` is cron ("0 9 * * MON-FRI"), ``rate(5 minutes)``, ``at(2026-12-24T18:00:00)`` or a recurrence rule, read in
        ``timezone`` (default UTC); several are due at every instant of any. A ``Rule`` says more: exclusions, holidays, windows,
        what happens when the clocks change.
        ``payload`` is anything that JSON can say, up to 256 KB. ``delivery``, ``start``, ``retry``, ``timeout`` and
        ``deadline`` override the job's own. ``options`` are those of OptionWords: ``queue``, ``catch_up``, ``overlap`` …
        Raises InvalidInput (ExpressionError for expression and zone), AlreadyExists, Unavailable.
        """
        check_name(name)
        known = self._job_name(job)
        rule = _rule(expression, timezone)
        policies = self._resolved(
            known, overrides(delivery=delivery, start=start, retry=retry, timeout=timeout, deadline=deadline)
        )
        asked = self._options(known, options)
        words = checked_text("description", description, MAX_DESCRIPTION), checked_tags(tags or {})
        text, ref = self._stored(payload)
        definition = Definition(
            job=known,
            rule=self._spread(rule, asked),
            payload=text,
            payload_ref=ref,
            overrides=policies,
            options=asked,
        )
        wish = creating.Wish(definition=lambda _: definition, description=words[0], tags=words[1], seed=_seed())
        return views.schedule_view(creating.create(self.tenant, name, wish, self._services, self._clock))

    def update_schedule(
        self,
        name: str,
        *,
        job: str | None = None,
        expression: str | Sequence[str] | Rule | None = None,
        timezone: str | None = None,
        payload: Any = UNSET,
        description: str | None = None,
        tags: Mapping[str, str] | None = None,
        delivery: str | None = None,
        start: str | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        deadline: float | None = None,
        expected_revision: int | None = None,
        **options: Unpack[OptionWords],
    ) -> Schedule:
        """Give a schedule a new revision; what is left out stays as it is. A paused one stays paused.

        From the instant of the call on, fires are those of the new revision; earlier ones are kept.
        Raises InvalidInput, NotFound, Conflict (with ``expected_revision``: if another one is current), Unavailable.
        """
        check_name(name)
        if job is not None:
            self._job_name(job)
        given = overrides(delivery=delivery, start=start, retry=retry, timeout=timeout, deadline=deadline)
        self._refuse_options(options)
        new_payload = None if payload is UNSET else self._stored(payload)

        def define(present: Definition | None) -> Definition:
            if present is None:
                raise NotFound(f"name={name!r}: there is nothing to update")
            kept = (present.payload, present.payload_ref) if new_payload is None else new_payload
            wanted = _either(job, present.job)
            return Definition(
                job=wanted,
                rule=_changed_rule(present.rule, expression, timezone),
                payload=kept[0],
                payload_ref=kept[1],
                overrides=Overrides(**{n: _either(v, getattr(present.overrides, n)) for n, v in vars(given).items()}),
                options=self._options_after(present, wanted, options),
            )

        wish = creating.Wish(
            definition=define,
            description=None if description is None else checked_text("description", description, MAX_DESCRIPTION),
            tags=None if tags is None else checked_tags(tags),
            seed=_seed(),
        )
        head = creating.update(self.tenant, name, wish, self._services, self._clock, expected=expected_revision)
        return views.schedule_view(head)

    def pause_schedule(self, name: str, *, note: str | None = None, drain: bool = False) -> Schedule:
        """Stop a schedule. When this returns, nothing of it starts any more; ``drain=True`` lets runs go that are due already.

        Attempts that are running go on. Raises NotFound, Conflict, Unavailable (then call again to finish).
        """
        check_name(name)
        text = None if note is None else checked_text("note", note, MAX_DESCRIPTION)
        head = closing.pause(self.tenant, name, self._services, self._clock, note=text, drain=drain)
        return views.schedule_view(head)

    def resume_schedule(self, name: str) -> Schedule:
        """Arm a paused schedule again, from now on. Raises NotFound, ExpressionError (it has no further fire), Conflict."""
        check_name(name)
        return views.schedule_view(creating.resume(self.tenant, name, self._services, self._clock))

    def delete_schedule(self, name: str, *, drain: bool = False) -> None:
        """Remove a schedule; its runs stay readable by their ids. When this returns, nothing of it starts any more."""
        check_name(name)
        closing.delete(self.tenant, name, self._services, self._clock, drain=drain)

    def get_schedule(self, name: str) -> Schedule:
        """A schedule with its payload, last fire and next fires. Raises NotFound."""
        head = self._head(name)
        revision = creating.read_revision(self._services, head)
        definition = revision.definition
        payload = definition.payload
        if definition.payload_ref is not None:
            payload = self._services.payloads.get(definition.payload_ref)
        return views.schedule_view(
            head,
            revision,
            payload=payload,
            last_fired=self._last_fired(head),
            upcoming=self._upcoming(head, revision),
        )

    def _head(self, name: str) -> Head:
        head = self._services.schedules.head(self.tenant, check_name(name))
        if head is None or head.state is ScheduleState.DELETED:
            raise NotFound(
                f"name={name!r}: tenant {self.tenant!r} has no schedule of that name; list_schedules() shows those it has"
            )
        return head

    def _last_fired(self, head: Head) -> int | None:
        runs = self._services.ledger.latest(head.owner, upto=self._clock())
        return next((run.due for run in runs if run.started_at is not None), None)

    def _upcoming(self, head: Head, revision: Revision) -> list[int]:
        if revision.active_until is not None or head.state in (ScheduleState.PAUSED, ScheduleState.DELETED):
            return []
        table = timetable(revision.definition.rule, anchor=revision.counts_from, key=revision.owner)
        now = max(self._clock(), revision.active_from)
        return list(islice(fires(table, now, now + 10**13), _UPCOMING))

    def list_schedules(
        self, *, prefix: str = "", state: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page:
        """Schedules in order of name; deleted ones only with ``state="DELETED"``. Reads about what it returns."""
        wanted = None if state is None else _state(state)
        _check_listing(prefix, cursor)
        checked_limit(limit)
        heads: list[Head] = []
        while True:
            size = max(limit - len(heads), _READ)
            page = self._services.schedules.page(self.tenant, prefix=prefix, limit=size, cursor=cursor)
            heads += [h for h in page.items if (h.state is wanted if wanted else h.state is not ScheduleState.DELETED)]
            cursor = page.cursor if len(heads) <= limit else heads[limit - 1].name
            if cursor is None or len(heads) >= limit:
                return Page(items=[views.schedule_view(head) for head in heads[:limit]], cursor=cursor)


def _check_listing(prefix: str, cursor: str | None) -> None:
    if prefix != "":
        check_name(prefix, "prefix")
    if cursor is not None and not check_name(cursor, "cursor").startswith(prefix):
        raise InvalidInput("cursor", cursor, "is not of this listing", "pass the cursor of the page before")


def _seed() -> str:
    return uuid.uuid4().hex


def _rule(expression: str | Sequence[str] | Rule, timezone: str | None) -> Rule:
    """A rule from what a user gives; a Rule has its own time zone."""
    if not isinstance(expression, Rule):
        return Rule.of(expression, timezone="UTC" if timezone is None else timezone)
    if timezone is not None:
        raise InvalidInput(
            "timezone", timezone, "was given beside a Rule, which has its own", "pass Rule(timezone=...)"
        )
    return expression


def _changed_rule(present: Rule, expression: str | Sequence[str] | Rule | None, timezone: str | None) -> Rule:
    """The present rule with another expression or zone; what was counted for the old one (``last``) is counted anew."""
    if isinstance(expression, Rule):
        return _rule(expression, timezone)
    if expression is None and timezone is None:
        return present
    texts = (present.expression, *present.also) if expression is None else Rule.of(expression)
    first, also = (texts.expression, texts.also) if isinstance(texts, Rule) else (texts[0], texts[1:])
    return replace(present, expression=first, also=also, timezone=_either(timezone, present.timezone), last=None)


def _either(given: _T | None, present: _T) -> _T:
    return present if given is None else given


def _state(state: str) -> ScheduleState:
    try:
        return ScheduleState(state)
    except ValueError:
        raise InvalidInput("state", state, "is not known", f"use one of {', '.join(ScheduleState)}") from None
