"""What a tenant's runs say: those of the last minutes that ended, those that are due and have not started, those that have not ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quarterjack.domain.history.entry import Book, RunKind
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunState
from quarterjack.domain.times import DAY, MINUTE
from quarterjack.history.find import Finder, FindSpec
from quarterjack.history.read import PageBudget, Reading
from quarterjack.ports.services import Services
from quarterjack.state.history.search import Search
from quarterjack.state.history.stats import Tally
from quarterjack.stores.history.pages import ReadMeter

_WAITS = frozenset({RunState.QUEUED, RunState.RETRYING, RunState.CONTINUED})  # for a worker, once they are due
ACCEPTED = frozenset({RunKind.ONE_OFF, RunKind.TRIGGER, RunKind.REPLAY})  # by an act of the owner's, one by one
_FAR = (10**6 - 1) * DAY  # UTC ms: the last day that the history has


@dataclass(frozen=True, kw_only=True)
class RecentRuns:
    """Ended runs of a tenant."""

    tally: Tally
    since: int  # UTC ms: the runs that ended later were read


def recent(tenant: str, *, now: int, span: int, services: Services, meter: ReadMeter, budget: PageBudget) -> RecentRuns:
    """The runs that ended in the last ``span`` ms, the latest first, until the ``budget`` is over. Raises Unavailable."""
    tally, begin = Tally(), now - span
    reading = Reading(
        services.history, tenant, Book.ENDED, Search(), after=begin, upto=now, meter=meter, is_over=budget.is_over
    )
    for entry in reading.entries():
        tally.add(entry)
    return RecentRuns(tally=tally, since=max(begin, reading.searched))


def waiting(
    tenant: str, *, now: int, most: int, services: Services, meter: ReadMeter, budget: PageBudget
) -> tuple[int, bool]:
    """How many runs but fires are due and wait for a worker, at most ``most``; and whether these are all. Raises Unavailable."""
    spec = FindSpec(search=Search(states=_WAITS), after=-1, upto=now, limit=most)
    finder = Finder(
        services, spec, meter=meter, budget=budget, running=lambda tenant, limit, cursor: ((), None), now=now
    )
    found = finder.of_tenant(tenant, None)
    return len(found.runs), found.cursor is None


@dataclass(frozen=True, kw_only=True)
class OpenRuns:
    """Runs of a tenant but fires."""

    open: int  # that have not ended; one more than was asked for if there are more
    seen: int  # that were accepted one by one since some time, also if they have ended


def count_open(
    tenant: str,
    *,
    since: int,
    coming: int,
    now: int,
    most: int,
    services: Services,
    meter: ReadMeter,
    is_over: Callable[[], bool],
) -> OpenRuns:
    """Count the runs that have not ended, the latest first, until there are more than ``most`` or it ``is_over``.

    And up to ``coming`` of those that were accepted after ``since`` (UTC ms), by the clocks of those who accepted them. It reads
    entries, and no run. Raises Unavailable.
    """
    count, seen = 0, set[RunRef]()
    kinds = Search(kinds=ACCEPTED | {RunKind.BACKFILL})
    listed = Reading(services.history, tenant, Book.OPEN, kinds, after=-1, upto=_FAR, meter=meter, is_over=is_over)
    for entry in listed.entries():
        count += 1
        if count > most:
            break
        if entry.kind in ACCEPTED and entry.created_at > since:
            seen.add(entry.run)
    if count <= most and len(seen) < coming:
        search = Search(kinds=ACCEPTED)
        ended = Reading(
            services.history, tenant, Book.ENDED, search, after=since, upto=now + MINUTE, meter=meter, is_over=is_over
        )
        for entry in ended.entries():
            if entry.created_at > since:
                seen.add(entry.run)
            if len(seen) >= coming:
                break
    return OpenRuns(open=count, seen=len(seen) if count <= most else coming)
