"""The SDK's reads of schedules: get, list, describe, preview."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from quarterjack.arguments import MAX_TAG, checked_limit
from quarterjack.domain.job import JobRef
from quarterjack.domain.names import check_name, check_whole, is_text
from quarterjack.domain.policies import word
from quarterjack.domain.schedule import Head, Revision, ScheduleState, ScheduleStateWord
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.times import from_ms, to_ms
from quarterjack.errors import Conflict, InvalidInput
from quarterjack.fires.context import revision_of
from quarterjack.owner.schedules import chain_health as chain
from quarterjack.owner.schedules.chain_health import ChainHealth
from quarterjack.owner.schedules.client_tokens import RACES
from quarterjack.ports.services import Services
from quarterjack.sdk.base import SchedulerBase
from quarterjack.sdk.cursors import Listing
from quarterjack.sdk.schedule_views import (
    ChainView,
    DefinitionView,
    Schedule,
    ScheduleDescription,
    revision_view,
    schedule_view,
)
from quarterjack.sdk.views import Page
from quarterjack.stores.paging import OnRead, ReadBudget, RowPage
from quarterjack.timing import fires, timetable, zone

_T = TypeVar("_T")
TagFilter = tuple[str, str] | str  # key and value, or a key with any value
MOST_NAMES = 1_000  # of one filter
CHUNK = 250  # heads in one query of a bulk call, or of a forecast
_SEARCHED = 125  # heads in one query of a filtered listing
_UNITS = 80.0  # read units after which a page of list_schedules ends: 650 heads of half a KB
MOST_FIRES = 1_000  # that preview shows
_UPCOMING = 5  # next fires that get_schedule shows
_DESCRIBED = 10  # next fires and last runs that describe_schedule shows
_REVISIONS = 20  # of a description
_READ = 25  # heads that are read at once at least: many deleted ones in a row must not cost a query each
_AGES = 10**13  # ms: as far as fires are looked for
_REMEDIES = {
    ChainHealth.MISSING: "no further fire would be claimed: `quarterjack audit` puts the entry back, as the auditor does every hour",
    ChainHealth.QUARANTINED: "handling its entry failed ten times: see the ticker's log, then update, or pause and resume it",
    ChainHealth.UNKNOWN: "too many entries are due before it to look through: the ticker is behind, see `quarterjack doctor`",
}


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Conditions on a schedule, all of which must hold. None is no condition."""

    prefix: str = ""  # of the name
    contains: str = ""  # part of the name
    state: ScheduleState | None = None  # None: any but DELETED
    job: str | None = None
    tag: tuple[str, str | None] | None = None  # key and value; value None: any
    failing: bool | None = None  # whether an incident is open, or the last ended run failed for good
    managed_by: str | None = None
    names: tuple[str, ...] | None = None  # sorted: only schedules of these names, which are read by name

    def matches(self, head: Head) -> bool:
        """Whether a head meets the filter. The query checks the prefix."""
        return (
            head.retired_at is None
            and (head.state is self.state if self.state else head.state is not ScheduleState.DELETED)
            and self.contains in head.name
            and self.job in (None, head.job)
            and (self.tag is None or (self.tag[0] in head.tags and self.tag[1] in (None, head.tags[self.tag[0]])))
            and self.failing in (None, head.failing > 0 or head.incident is not None)
            and self.managed_by in (None, head.managed_by)
        )


def checked_filter(
    *,
    prefix: object = "",
    contains: object = "",
    state: Any = None,
    job: object = None,
    tag: object = None,
    failing: object = None,
    managed_by: object = None,
    names: object = None,
) -> Filter:
    if failing is not None and not isinstance(failing, bool):
        raise InvalidInput("failing", failing, "is neither True nor False", "use True, False, or leave it out")
    return Filter(
        prefix="" if isinstance(prefix, str) and not prefix else check_name(prefix, "prefix"),
        contains="" if isinstance(contains, str) and not contains else check_name(contains, "contains"),
        state=None if state is None else word(ScheduleState, "state", state),
        job=None if job is None else check_name(job, "job"),
        tag=None if tag is None else checked_tag(tag),
        failing=failing,
        managed_by=None if managed_by is None else check_name(managed_by, "managed_by"),
        names=None if names is None else _checked_names(names),
    )


def _checked_names(names: object) -> tuple[str, ...]:
    if not isinstance(names, (list, tuple, set, frozenset)) or not 1 <= len(names) <= MOST_NAMES:
        raise InvalidInput("names", names, "is not a list of fitting length", f"give 1 to {MOST_NAMES:,} names")
    return tuple(sorted({check_name(name, "names") for name in names}))


def walk(
    tenant: str,
    conditions: Filter,
    services: Services,
    *,
    cursor: str | None,
    chunk: int,
    on_read: OnRead | None = None,
) -> Iterator[RowPage]:
    """The matching heads sorted by name, one page for each query; its cursor is the last name that was read.

    ``on_read`` gets the read units of each query. Raises Unavailable.
    """
    if conditions.names is not None:
        left = [name for name in conditions.names if cursor is None or name > cursor]
        for at in range(0, len(left), chunk):
            some = left[at : at + chunk]
            heads = sorted(services.schedules.heads((tenant, name) for name in some), key=lambda head: head.name)
            fitting = [head for head in heads if head.name.startswith(conditions.prefix) and conditions.matches(head)]
            if on_read is not None:
                on_read(len(some))
            yield RowPage(items=fitting, cursor=some[-1] if some[-1] != left[-1] else None)
        return
    while True:
        page = services.schedules.page(tenant, prefix=conditions.prefix, limit=chunk, cursor=cursor, on_read=on_read)
        yield replace(page, items=[head for head in page.items if conditions.matches(head)])
        cursor = page.cursor
        if cursor is None:
            return


def checked_tag(tag: object) -> tuple[str, str | None]:
    parts = (tag,) if isinstance(tag, str) else tag
    if (
        not isinstance(parts, (tuple, list))
        or len(parts) not in (1, 2)
        or not all(is_text(p, MAX_TAG) for p in parts)
        or not parts[0]
    ):
        raise InvalidInput("tag", tag, "is not a tag", 'use ("key", "value"), or "key" for any value')
    return parts[0], parts[1] if len(parts) == 2 else None


class ReadMethods(SchedulerBase):
    def get_schedule(self, name: str) -> Schedule:
        """A schedule with its payload, last fire and next fires. Raises NotFound, Conflict (others change it all the time)."""
        return self._as_of_one_instant(name, self._view, Verb.READ_SCHEDULES)

    def _as_of_one_instant(
        self, name: str, look: Callable[[Head, Revision], _T], verb: Verb, *, more: bool = False
    ) -> _T:
        """What ``look`` makes of a schedule and its current revision. Raises NotFound, Conflict.

        The two are read one after the other, and others may change the schedule in between. A revision that is open was open when
        its head was read. If an active schedule's is not, or if ``look`` reads ``more`` of the schedule, the head is read again.
        """
        head = self._head(name, verb)
        for _ in range(RACES):
            revision = revision_of(head, self.session.services)
            found = look(head, revision)
            if not more and (head.state is not ScheduleState.ACTIVE or revision.active_until is None):
                return found
            now = self._head(name, verb)
            if now == head:
                return found
            head = now
        raise Conflict(f"name={name!r}: others changed it {RACES} times while it was read; try again")

    def _view(self, head: Head, revision: Revision) -> Schedule:
        runs = self.session.services.ledger.latest(head.owner, upto=self.session.clock())
        may_see = self._may(Verb.READ_PAYLOADS, revision.definition.job)
        return schedule_view(
            head,
            revision,
            payload=self._payload_of(revision.definition) if may_see else None,
            masked=not may_see,
            last_fired=next((run.due for run in runs if run.started_at is not None), None),
            upcoming=self._upcoming(head, revision, _UPCOMING),
        )

    def _may_read_payloads(self, job: str) -> bool:
        return self._may(Verb.READ_PAYLOADS, job)

    def _upcoming(self, head: Head, revision: Revision, count: int, after: int = 0) -> list[int]:
        if revision.active_until is not None or head.state in (ScheduleState.PAUSED, ScheduleState.DELETED):
            return []
        table = timetable(revision.definition.rule, anchor=revision.counts_from, key=revision.owner)
        begin = max(self.session.clock(), revision.active_from, after)
        return list(islice(fires(table, begin, begin + _AGES), count))

    def preview(self, name: str, count: int = 10, *, after: datetime | None = None) -> Sequence[datetime]:
        """The next ``count`` (1 to 1000) fires of a schedule later than now, and than ``after`` (aware), in its zone; none unless
        it is ACTIVE.

        Raises InvalidInput, NotFound, Conflict (others change it all the time).
        """
        most = checked_limit(count, MOST_FIRES, "count")
        begin = 0 if after is None else to_ms(after, "after")

        def look(head: Head, revision: Revision) -> Sequence[datetime]:
            return [from_ms(fire, zone(head.timezone)) for fire in self._upcoming(head, revision, most, begin)]

        return self._as_of_one_instant(name, look, Verb.PREVIEW)

    def list_schedules(
        self,
        *,
        prefix: str = "",
        contains: str = "",
        state: ScheduleStateWord | None = None,
        job: JobRef | None = None,
        tag: TagFilter | None = None,
        failing: bool | None = None,
        managed_by: str | None = None,
        next_fires: int = 0,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        """Schedules that meet all conditions, sorted by name; deleted schedules only with ``state="DELETED"``.

        ``contains`` is a part of the name, ``tag`` is ``("key", "value")``, or ``"key"`` for any value; ``failing``: whether an
        incident is open; ``managed_by``: the package or file that declares it; ``next_fires``: how many
        (0 to 10) each schedule's ``next_fires`` gets, which takes one more read for every 100 schedules.
        Only the prefix limits which schedules are read (about half a KB each); the other conditions filter the schedules read.
        A page ends after ``limit`` schedules, or once it has read about 80 read units, so it may hold fewer or none: ``cursor``
        goes on (only None is the end), and ``searched_name`` says up to which name it has looked.
        Raises InvalidInput, Unavailable.
        """
        self._permit(Verb.READ_SCHEDULES, self._named_job(job))
        conditions = checked_filter(
            prefix=prefix,
            contains=contains,
            state=state,
            job=self._named_job(job),
            tag=tag,
            failing=failing,
            managed_by=managed_by,
        )
        count = check_whole("next_fires", next_fires, 0, _DESCRIBED)
        listing = Listing("list_schedules", self.tenant, conditions)
        position = listing.position(cursor)
        chunk = max(checked_limit(limit), _READ if conditions == Filter(prefix=conditions.prefix) else _SEARCHED)
        heads: list[Head] = []
        budget = ReadBudget(_UNITS)
        for part in walk(
            self.tenant, conditions, self.session.services, cursor=position, chunk=chunk, on_read=budget.spend
        ):
            heads += part.items
            if len(heads) >= limit or budget.is_over:
                break
        last = part.cursor if len(heads) <= limit else heads[limit - 1].name
        upcoming = self._next_fires(heads[:limit], count)
        items = [schedule_view(head, upcoming=upcoming.get(head.owner, ())) for head in heads[:limit]]
        return Page(items=items, cursor=listing.next(last), searched_name=last)

    def _next_fires(self, heads: Sequence[Head], count: int) -> Mapping[str, Sequence[int]]:
        """The next fires by owner. A schedule whose revision was not answered, or changes meanwhile, has none."""
        keys = {(head.owner, head.revision): head for head in heads if head.state is ScheduleState.ACTIVE and count}
        found = self.session.services.schedules.revisions(keys).found if keys else {}
        return {head.owner: self._upcoming(head, found[key], count) for key, head in keys.items() if key in found}

    def describe_schedule(self, name: str) -> ScheduleDescription:
        """A schedule with its definition, history, next fires, last runs, and the health of its chain, all as of one instant.

        The history says what changed, when, and by whom. Costs about eight reads. Raises InvalidInput, NotFound, Conflict
        (others change it all the time), Unavailable.
        """
        return self._as_of_one_instant(name, self._description, Verb.READ_SCHEDULES, more=True)

    def _description(self, head: Head, revision: Revision) -> ScheduleDescription:
        schedule, definition, local = self._view(head, revision), revision.definition, zone(head.timezone)
        latest = self.session.services.ledger.latest(head.owner, upto=self.session.clock())
        last_runs = (run for run in latest if self._may(Verb.READ_RUNS, run.job))
        history = list(islice(self.session.services.schedules.history(head.owner), _REVISIONS + 1))
        pairs = zip(history[:_REVISIONS], [*history[1:], None], strict=False)
        found = chain.check_chain(head, revision, self.session.services, self.session.clock)
        return ScheduleDescription(
            schedule=schedule,
            definition=DefinitionView(
                job=definition.job,
                rule=definition.rule,
                payload=schedule.payload,
                policies=definition.overrides.as_dict(),
                options=definition.options.as_dict(),
                counts_from=from_ms(revision.counts_from),
            ),
            revisions=[revision_view(one, before, may_see=self._may_read_payloads) for one, before in pairs],
            next_fires=[from_ms(fire, local) for fire in self._upcoming(head, revision, _DESCRIBED)],
            last_runs=[self._run_view(run, now=self.session.clock()) for run in islice(last_runs, _DESCRIBED)],
            chain=ChainView(
                state=str(found.health),
                due=None if found.due is None else from_ms(found.due),
                remedy=_REMEDIES.get(found.health),
            ),
        )
