"""The SDK's reads of schedules: get, list, describe, preview."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TypeVar

from quarterjack.arguments import checked_limit
from quarterjack.domain.job import JobRef
from quarterjack.domain.names import check_whole
from quarterjack.domain.schedule import Head, Revision, ScheduleState, ScheduleStateWord
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.times import from_ms, to_ms
from quarterjack.errors import Conflict
from quarterjack.fires.context import revision_of
from quarterjack.owner.schedules import chain_health as chain
from quarterjack.owner.schedules.chain_health import ChainHealth
from quarterjack.owner.schedules.client_tokens import RACES
from quarterjack.sdk.base import SchedulerBase
from quarterjack.sdk.cursors import Listing
from quarterjack.sdk.schedule_views import (
    ChainView,
    DefinitionView,
    Schedule,
    ScheduleDescription,
    jobs_of,
    revision_view,
    schedule_view,
    without_values,
)
from quarterjack.sdk.schedules.filters import Filter, TagFilter, checked_filter, walk
from quarterjack.sdk.views import Page
from quarterjack.stores.paging import ReadBudget
from quarterjack.timing import fires, timetable, zone

_T = TypeVar("_T")
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
        head = self._access.head(name, verb)
        for _ in range(RACES):
            revision = revision_of(head, self.session.services)
            found = look(head, revision)
            if not more and (head.state is not ScheduleState.ACTIVE or revision.active_until is None):
                return found
            now = self._access.head(name, verb)
            if now == head:
                return found
            head = now
        raise Conflict(f"name={name!r}: others changed it {RACES} times while it was read; try again")

    def _view(self, head: Head, revision: Revision) -> Schedule:
        runs = self.session.services.ledger.latest(head.owner, upto=self.session.clock())
        may_see = all(map(self._access.may_read_payloads, jobs_of(revision.definition)))
        return schedule_view(
            head,
            revision,
            payload=self._payload_of(revision.definition) if may_see else None,
            masked=not may_see,
            last_fired=next((run.due for run in runs if run.started_at is not None), None),
            upcoming=self._upcoming(head, revision, _UPCOMING),
        )

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
        pipelines: bool | None = None,
        next_fires: int = 0,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        """Schedules that meet all conditions, sorted by name; deleted schedules only with ``state="DELETED"``.

        ``contains`` is a part of the name, ``tag`` is ``("key", "value")``, or ``"key"`` for any value; ``failing``: whether an
        incident is open; ``managed_by``: the package or file that declares it; ``pipelines``: whether it has tasks; ``next_fires``:
        how many
        (0 to 10) each schedule's ``next_fires`` gets, which takes one more read for every 100 schedules.
        Only the prefix limits which schedules are read (about half a KB each); the other conditions filter the schedules read.
        A page ends after ``limit`` schedules, or once it has read about 80 read units, so it may hold fewer or none: ``cursor``
        goes on (only None is the end), and ``searched_name`` says up to which name it has looked. ``unreadable``
        names the schedules that this release cannot read, whether or not they meet the conditions.
        Raises InvalidInput, Unavailable.
        """
        self._access.check(Verb.READ_SCHEDULES, self._checks.named_job(job))
        conditions = checked_filter(
            prefix=prefix,
            contains=contains,
            state=state,
            job=self._checks.named_job(job),
            tag=tag,
            failing=failing,
            managed_by=managed_by,
            pipelines=pipelines,
        )
        count = check_whole("next_fires", next_fires, 0, _DESCRIBED)
        listing = Listing("list_schedules", self.tenant, conditions)
        position = listing.position(cursor)
        chunk = max(checked_limit(limit), _READ if conditions == Filter(prefix=conditions.prefix) else _SEARCHED)
        heads: list[Head] = []
        unread = list[str]()
        budget = ReadBudget(_UNITS)
        for part in walk(
            self.tenant, conditions, self.session.services, cursor=position, chunk=chunk, on_read=budget.spend
        ):
            heads += part.items
            unread += part.unread
            if len(heads) >= limit or budget.is_over:
                break
        last = part.cursor if len(heads) <= limit else heads[limit - 1].name
        upcoming = self._next_fires(heads[:limit], count)
        items = [schedule_view(head, upcoming=upcoming.get(head.owner, ())) for head in heads[:limit]]
        unread = [name for name in unread if last is None or name <= last]
        return Page(items=items, cursor=listing.next(last), searched_name=last, unreadable=unread)

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
        last_runs = (run for run in latest if self._access.may(Verb.READ_RUNS, run.job))
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
                options=without_values(definition.options.as_dict(), masked=schedule.masked),
                counts_from=from_ms(revision.counts_from),
            ),
            revisions=[revision_view(one, before, may_see=self._access.may_read_payloads) for one, before in pairs],
            next_fires=[from_ms(fire, local) for fire in self._upcoming(head, revision, _DESCRIBED)],
            last_runs=[self._access.run_view(run, now=self.session.clock()) for run in islice(last_runs, _DESCRIBED)],
            chain=ChainView(
                state=str(found.health),
                due=None if found.due is None else from_ms(found.due),
                remedy=_REMEDIES.get(found.health),
            ),
        )
