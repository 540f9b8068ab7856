"""The SDK's schedules: create, update, upsert, pause, resume, delete. Each call is one transaction, or nothing where nothing changes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from minutehand.arguments import MAX_DESCRIPTION, checked_revision, checked_tags, checked_text, end_time, rule_of
from minutehand.domain.names import check_name
from minutehand.domain.options import OptionWords
from minutehand.domain.policies import Retry, overrides
from minutehand.domain.schedule import Definition
from minutehand.errors import NotFound
from minutehand.owner.schedules import arm as creating
from minutehand.owner.schedules import stop as closing
from minutehand.owner.schedules.client_tokens import ClientToken
from minutehand.sdk import views
from minutehand.sdk.answers import Upserted
from minutehand.sdk.base import UNSET, SchedulerBase
from minutehand.sdk.requests import PendingPayload, ScheduleRequest, SpecPatch, either, token_of
from minutehand.sdk.views import Schedule
from minutehand.timing import Rule


class ScheduleMethods(SchedulerBase):
    """Schedules of one tenant.

    Every change takes ``expected_revision``, the revision that you saw: another one being current is a Conflict that names both.
    And a ``client_token``, a text of your own: the same call again with it, within 24 hours, returns what the first one did
    instead of acting again; another call with it is AlreadyExists.
    """

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
        client_token: str | None = None,
        **options: Unpack[OptionWords],
    ) -> Schedule:
        """Create a schedule and arm it: a fire that is due in five seconds starts in five seconds.

        ``expression`` is cron ("0 9 * * MON-FRI"), ``rate(5 minutes)``, ``at(2026-12-24T18:00:00)`` or a recurrence rule, read in
        ``timezone`` (default UTC); several are due at every instant of any. A ``Rule`` says more: exclusions, holidays, windows,
        what happens when the clocks change.
        ``payload`` is anything that JSON can say, up to 256 KB and 64 levels of lists and dicts. ``delivery``, ``start``, ``retry``,
        ``timeout`` and ``deadline`` override the job's own. ``options`` are those of OptionWords: ``queue``, ``catch_up``, ``overlap`` …
        Raises InvalidInput (ExpressionError for expression and zone), AlreadyExists, Unavailable.
        """
        given = {"delivery": delivery, "start": start, "retry": retry, "timeout": timeout, "deadline": deadline}
        asked = self._asked(name, job, expression, timezone, payload, description, tags, given, options)
        token = token_of(client_token, self.tenant, "create_schedule", name, asked=asked)
        head = creating.create(self.tenant, name, wish_of(asked), self._services, self._clock, token=token)
        return views.schedule_view(head)

    def upsert_schedule(
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
        managed_by: str | None = None,
        expected_revision: int | None = None,
        client_token: str | None = None,
        **options: Unpack[OptionWords],
    ) -> Upserted:
        """Create a schedule, or make it what is said here: what is left out has its default. Where it is so, nothing is written.

        ``change`` says what was done: "created", "updated" or "unchanged". A paused schedule stays paused. ``managed_by`` is the
        package or file that it is declared in; None leaves what is noted. With ``expected_revision`` it must be there.
        Raises InvalidInput, NotFound, Conflict, AlreadyExists, Unavailable.
        """
        given = {"delivery": delivery, "start": start, "retry": retry, "timeout": timeout, "deadline": deadline}
        asked = self._asked(name, job, expression, timezone, payload, description, tags, given, options, managed_by)
        expected = checked_revision(expected_revision)
        token = token_of(client_token, self.tenant, "upsert_schedule", name, asked=asked, expected=expected)
        done = creating.upsert(
            self.tenant, name, wish_of(asked), self._services, self._clock, expected=expected, token=token
        )
        return Upserted(schedule=views.schedule_view(done.head), change=str(done.change))

    def _asked(
        self,
        name: str,
        job: str,
        expression: str | Sequence[str] | Rule,
        timezone: str | None,
        payload: Any,
        description: str,
        tags: Mapping[str, str] | None,
        given: Mapping[str, Any],
        options: OptionWords,
        managed_by: str | None = None,
    ) -> ScheduleRequest:
        """The checked arguments of create and upsert."""
        check_name(name)
        known = self._job_name(job)
        self._check_payload(known, payload)
        rule = rule_of(expression, timezone)
        policies = self._resolved(known, overrides(**given))
        asked = self._options(known, options)
        return ScheduleRequest(
            job=known,
            rule=self._spread(rule, asked),
            overrides=policies,
            options=asked,
            description=checked_text("description", description, MAX_DESCRIPTION),
            tags=checked_tags(tags or {}),
            managed_by=None if managed_by is None else check_name(managed_by, "managed_by"),
            payload=PendingPayload(payload, self.tenant, self._services.payloads),
        )

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
        client_token: str | None = None,
        **options: Unpack[OptionWords],
    ) -> Schedule:
        """Give a schedule a new revision; what is left out stays as it is. A paused one stays paused.

        From the instant of the call on, fires are those of the new revision; earlier ones are kept. Description and tags are the
        schedule's own: a change of these alone makes no revision, and one that changes nothing writes nothing.
        Raises InvalidInput, NotFound, Conflict (with ``expected_revision``: if another one is current), AlreadyExists, Unavailable.
        """
        check_name(name)
        if job is not None:
            self._job_name(job)
        given = overrides(delivery=delivery, start=start, retry=retry, timeout=timeout, deadline=deadline)
        self._refuse_options(options)
        amended = SpecPatch(
            job=job,
            expression=expression,
            timezone=timezone,
            overrides=given,
            options=lambda present, wanted: self._options_after(present, wanted, options),
            payload=None if payload is UNSET else PendingPayload(payload, self.tenant, self._services.payloads),
        )
        labels = (
            None if description is None else checked_text("description", description, MAX_DESCRIPTION),
            None if tags is None else checked_tags(tags),
        )
        expected = checked_revision(expected_revision)
        said = (job, expression, timezone, amended.payload, labels, given, options, expected)
        token = token_of(client_token, self.tenant, "update_schedule", name, said=said)

        def define(present: Definition | None) -> Definition:
            if present is None:
                raise NotFound(f"name={name!r}: there is nothing to update")
            if payload is not UNSET:
                self._check_payload(either(job, present.job), payload)
            return amended.define(present)

        wish = creating.ScheduleSpec(definition=define, description=labels[0], tags=labels[1], seed=_seed())
        head = creating.update(self.tenant, name, wish, self._services, self._clock, expected=expected, token=token)
        return views.schedule_view(head)

    def pause_schedule(
        self,
        name: str,
        *,
        note: str | None = None,
        until: datetime | None = None,
        drain: bool = False,
        expected_revision: int | None = None,
        client_token: str | None = None,
    ) -> Schedule:
        """Stop a schedule. When this returns, nothing of it starts any more; ``drain=True`` lets runs go that are due already.

        With ``until`` (aware) it goes on by itself then, with the fires from that instant on; pausing again decides anew.
        Attempts that are running go on. Raises InvalidInput, NotFound, Conflict, AlreadyExists, Unavailable (then call again to
        finish). Without ``drain`` it reads the schedule's ledger, as far as that is kept: a call every 1 MB of it.
        """
        check_name(name)
        text = None if note is None else checked_text("note", note, MAX_DESCRIPTION)
        end = end_time(until, self._clock())
        head = closing.pause(
            self.tenant,
            name,
            self._services,
            self._clock,
            note=text,
            until=end,
            drain=drain,
            expected=checked_revision(expected_revision),
            token=self._token(client_token, "pause_schedule", name, text, end, drain, expected_revision),
        )
        return views.schedule_view(head)

    def resume_schedule(
        self, name: str, *, expected_revision: int | None = None, client_token: str | None = None
    ) -> Schedule:
        """Arm a paused schedule again, from now on; an active one stays as it is.

        With ``automatic_backfill`` it goes on where it was paused: the fires of the pause were missed, and ``catch_up`` decides.

        Raises InvalidInput, NotFound, ExpressionError (it has no further fire), Conflict, AlreadyExists, Unavailable.
        """
        check_name(name)
        head = creating.resume(
            self.tenant,
            name,
            self._services,
            self._clock,
            expected=checked_revision(expected_revision),
            token=self._token(client_token, "resume_schedule", name, expected_revision),
        )
        return views.schedule_view(head)

    def delete_schedule(
        self,
        name: str,
        *,
        drain: bool = False,
        expected_revision: int | None = None,
        client_token: str | None = None,
    ) -> None:
        """Remove a schedule; its runs stay readable by their ids. When this returns, nothing of it starts any more.

        Raises InvalidInput, NotFound (there never was one), Conflict, AlreadyExists, Unavailable (then call again to finish).
        """
        check_name(name)
        closing.delete(
            self.tenant,
            name,
            self._services,
            self._clock,
            drain=drain,
            expected=checked_revision(expected_revision),
            token=self._token(client_token, "delete_schedule", name, drain, expected_revision),
        )

    def _token(self, client_token: str | None, act: str, name: str, *said: object) -> ClientToken | None:
        return token_of(client_token, self.tenant, act, name, said=said)


def wish_of(asked: ScheduleRequest) -> creating.ScheduleSpec:
    """The complete specification that create and upsert take."""
    return creating.ScheduleSpec(
        definition=asked.define,
        description=asked.description,
        tags=asked.tags,
        managed_by=asked.managed_by,
        seed=_seed(),
    )


def _seed() -> str:
    return uuid.uuid4().hex
