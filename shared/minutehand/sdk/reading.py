"""The SDK's reads of schedules: get, list, describe, preview."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, pairwise
from typing import Any

from minutehand.arguments import MAX_TAG, checked_limit
from minutehand.domain.names import check_name, is_text
from minutehand.domain.schedule import Definition, Head, Revision, ScheduleState
from minutehand.domain.times import from_ms
from minutehand.errors import InvalidInput
from minutehand.fires.context import revision_of
from minutehand.owner.schedules import chain_health as chain
from minutehand.owner.schedules.chain_health import ChainHealth
from minutehand.ports.services import Services
from minutehand.sdk import views
from minutehand.sdk.base import SchedulerBase
from minutehand.sdk.views import ChainView, DefinitionView, Page, RevisionView, Schedule, ScheduleDescription
from minutehand.timing import fires, timetable, zone

TagFilter = tuple[str, str] | str  # key and value, or a key with any value
CHUNK = 250  # heads in one query of a filtered listing


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Conditions on a schedule, all of which must hold. None is no condition."""

    prefix: str = ""  # of the name
    state: ScheduleState | None = None  # None: any but DELETED
    job: str | None = None
    tag: TagFilter | None = None
    failing: bool | None = None  # whether an incident is open, or the last ended run failed for good
    managed_by: str | None = None

    @property
    def is_empty(self) -> bool:
        return self == Filter()

    @property
    def is_rare(self) -> bool:
        """Whether the filter may reject most schedules."""
        return any(value is not None for value in (self.state, self.job, self.tag, self.failing, self.managed_by))

    def matches(self, head: Head) -> bool:
        """Whether a head meets the filter. The query checks the prefix."""
        return (
            (head.state is self.state if self.state else head.state is not ScheduleState.DELETED)
            and self.job in (None, head.job)
            and self._matches_tags(head)
            and self.failing in (None, head.failing > 0 or head.incident is not None)
            and self.managed_by in (None, head.managed_by)
        )

    def _matches_tags(self, head: Head) -> bool:
        if self.tag is None:
            return True
        if isinstance(self.tag, str):
            return self.tag in head.tags
        key, value = self.tag
        return head.tags.get(key) == value


def checked_filter(
    *,
    prefix: object = "",
    state: object = None,
    job: object = None,
    tag: object = None,
    failing: object = None,
    managed_by: object = None,
) -> Filter:
    """A filter from a user's arguments. Raises InvalidInput."""
    if failing is not None and not isinstance(failing, bool):
        raise InvalidInput("failing", failing, "is neither True nor False", "use True, False, or leave it out")
    return Filter(
        prefix="" if isinstance(prefix, str) and not prefix else check_name(prefix, "prefix"),
        state=None if state is None else _state(state),
        job=None if job is None else check_name(job, "job"),
        tag=None if tag is None else _tag(tag),
        failing=failing,
        managed_by=None if managed_by is None else check_name(managed_by, "managed_by"),
    )


def checked_cursor(cursor: object, conditions: Filter) -> str | None:
    """The cursor: the name of the last schedule that was read. Raises InvalidInput."""
    if cursor is None:
        return None
    name = check_name(cursor, "cursor")
    if not name.startswith(conditions.prefix):
        raise InvalidInput("cursor", cursor, "is not of this listing", "pass the cursor of the page before")
    return name


def walk(
    tenant: str, conditions: Filter, services: Services, *, cursor: str | None, chunk: int
) -> Iterator[FilteredPage]:
    """The matching heads sorted by name, one page for each query. Raises Unavailable."""
    while True:
        page = services.schedules.page(tenant, prefix=conditions.prefix, limit=chunk, cursor=cursor)
        cursor = page.cursor
        yield FilteredPage([head for head in page.items if conditions.matches(head)], cursor)
        if cursor is None:
            return


@dataclass(frozen=True)
class FilteredPage:
    """The result of one query."""

    heads: list[Head]  # that match the filter
    cursor: str | None  # the last name that was read; None at the end


def _state(state: Any) -> ScheduleState:
    try:
        return ScheduleState(state)
    except ValueError:
        raise InvalidInput("state", state, "is not known", f"use one of {', '.join(ScheduleState)}") from None


def _tag(tag: object) -> TagFilter:
    parts = (tag,) if isinstance(tag, str) else tag
    if not isinstance(parts, (tuple, list)) or len(parts) not in (1, 2) or not all(is_text(p, MAX_TAG) for p in parts):
        raise InvalidInput("tag", tag, "is not a tag", 'use ("key", "value"), or "key" for any value')
    return (parts[0], parts[1]) if len(parts) == 2 else parts[0]


LOOKED_AT = 2_000  # heads that one call of list_schedules reads at the most: about 1 MB
MOST_FIRES = 1_000  # that preview shows
_UPCOMING = 5  # next fires that get_schedule shows
_DESCRIBED = 10  # next fires and last runs that describe_schedule shows
_REVISIONS = 20  # of a description
_READ = 25  # heads that are read at once at least: many deleted ones in a row must not cost a query each
_AGES = 10**13  # ms: as far as fires are looked for
_REMEDIES = {
    ChainHealth.MISSING: "no further fire would be claimed: `minutehand audit` puts the entry back, as the auditor does every hour",
    ChainHealth.QUARANTINED: "handling its entry failed ten times: see the ticker's log, then update, or pause and resume it",
    ChainHealth.UNKNOWN: "too many entries are due before it to look through: the ticker is behind, see `minutehand doctor`",
}


class ReadMethods(SchedulerBase):
    """Read methods for the schedules of one tenant."""

    def get_schedule(self, name: str) -> Schedule:
        """A schedule with its payload, last fire and next fires. Raises NotFound."""
        head = self._head(name)
        return self._view(head, revision_of(head, self._services))

    def _view(self, head: Head, revision: Revision) -> Schedule:
        return views.schedule_view(
            head,
            revision,
            payload=self._payload_of(revision.definition),
            last_fired=self._last_fired(head),
            upcoming=self._upcoming(head, revision, _UPCOMING),
        )

    def _head(self, name: str) -> Head:
        head = self._services.schedules.head(self.tenant, check_name(name))
        if head is None or head.state is ScheduleState.DELETED:
            raise self._no_schedule(name)
        return head

    def _last_fired(self, head: Head) -> int | None:
        runs = self._services.ledger.latest(head.owner, upto=self._clock())
        return next((run.due for run in runs if run.started_at is not None), None)

    def _upcoming(self, head: Head, revision: Revision, count: int) -> list[int]:
        if revision.active_until is not None or head.state in (ScheduleState.PAUSED, ScheduleState.DELETED):
            return []
        table = timetable(revision.definition.rule, anchor=revision.counts_from, key=revision.owner)
        now = max(self._clock(), revision.active_from)
        return list(islice(fires(table, now, now + _AGES), count))

    def preview(self, name: str, count: int = 10) -> Sequence[datetime]:
        """The next ``count`` (1 to 1000) fires of a schedule, in its zone; none unless it is ACTIVE. Raises InvalidInput, NotFound."""
        head = self._head(name)
        upcoming = self._upcoming(head, revision_of(head, self._services), checked_limit(count, MOST_FIRES, "count"))
        return [from_ms(fire, zone(head.timezone)) for fire in upcoming]

    def list_schedules(
        self,
        *,
        prefix: str = "",
        state: str | None = None,
        job: str | None = None,
        tag: TagFilter | None = None,
        failing: bool | None = None,
        managed_by: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        """Schedules that meet all conditions, sorted by name; deleted schedules only with ``state="DELETED"``.

        ``tag`` is ``("key", "value")``, or ``"key"`` for any value; ``failing``: whether an incident is open;
        ``managed_by``: the package or file that declares it.
        Only the prefix limits which schedules are read (about half a KB each); the other conditions filter the schedules read.
        One call reads at most 2,000, so a page may be short, even empty, and still have a ``cursor``: only None is the end.
        Raises InvalidInput, Unavailable.
        """
        conditions = checked_filter(
            prefix=prefix, state=state, job=job, tag=tag, failing=failing, managed_by=managed_by
        )
        position = checked_cursor(cursor, conditions)
        chunk = max(checked_limit(limit), CHUNK if conditions.is_rare else _READ)
        heads: list[Head] = []
        for calls, part in enumerate(walk(self.tenant, conditions, self._services, cursor=position, chunk=chunk), 1):
            heads += part.heads
            if len(heads) > limit:
                return _page(heads[:limit], heads[limit - 1].name)
            if len(heads) == limit or calls * chunk >= LOOKED_AT:
                return _page(heads, part.cursor)
        return _page(heads, None)

    def describe_schedule(self, name: str) -> ScheduleDescription:
        """A schedule with its definition, history, next fires, last runs, and the health of its chain.

        The history says what changed and when, not who changed it. Costs about five reads. Raises InvalidInput, NotFound, Unavailable.
        """
        head = self._head(name)
        revision = revision_of(head, self._services)
        now, local = self._clock(), zone(head.timezone)
        schedule = self._view(head, revision)
        definition = revision.definition
        history = list(islice(self._services.schedules.history(head.owner), _REVISIONS + 1))
        found = chain.check_chain(head, revision, self._services, self._clock)
        return ScheduleDescription(
            schedule=schedule,
            definition=DefinitionView(
                job=definition.job,
                rule=definition.rule,
                payload=schedule.payload,
                policies=definition.overrides.as_dict(),
                options=definition.options.as_dict(),
            ),
            revisions=_revisions(history),
            next_fires=[from_ms(fire, local) for fire in self._upcoming(head, revision, _DESCRIBED)],
            last_runs=[
                views.run_view(run) for run in islice(self._services.ledger.latest(head.owner, upto=now), _DESCRIBED)
            ],
            chain=ChainView(
                state=str(found.health),
                due=None if found.due is None else from_ms(found.due),
                remedy=_REMEDIES.get(found.health),
            ),
        )


def _page(heads: Sequence[Head], cursor: str | None) -> Page:
    return Page(items=[views.schedule_view(head) for head in heads], cursor=cursor)


def _revisions(history: Sequence[Revision]) -> list[RevisionView]:
    """Revisions, newest first, each with the fields that differ from its predecessor."""
    pairs = [*pairwise(history), *((one, None) for one in history[-1:])]
    return [
        views.view_of(
            RevisionView,
            one,
            **views.times_of(one, "active_from", "active_until"),
            closed_by=None if one.closed_by is None else str(one.closed_by),
            changed=[] if before is None else _changed(before.definition, one.definition),
        )
        for one, before in pairs[:_REVISIONS]
    ]


def _changed(before: Definition, after: Definition) -> list[str]:
    """Names of the fields that differ, as create_schedule and Rule call them."""
    old, new = _flat(before), _flat(after)
    return [name for name in dict.fromkeys((*new, *old)) if old.get(name) != new.get(name)]


def _flat(definition: Definition) -> dict[str, Any]:
    derived = ("seed", "last")
    rule = {name: value for name, value in definition.rule.as_dict().items() if name not in derived}
    text = definition.payload_ref or definition.payload
    return {
        "job": definition.job,
        **rule,
        "payload": text,
        **definition.overrides.as_dict(),
        **definition.options.as_dict(),
    }
