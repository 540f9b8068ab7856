"""What a tenant's runs of the last minutes say: those that ended, by their entries, and those that are due and have not started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minutehand.domain.history.entry import Book
from minutehand.domain.run import RunState
from minutehand.history.find import Finder, FindSpec
from minutehand.history.read import Reading
from minutehand.ports.history.pages import ReadMeter
from minutehand.ports.services import Services
from minutehand.state.history.search import Search
from minutehand.state.history.stats import Tally

_WAITS = frozenset({RunState.QUEUED, RunState.RETRYING})


@dataclass(frozen=True, kw_only=True)
class RecentRuns:
    """Ended runs of a tenant."""

    tally: Tally
    since: int  # UTC ms: the runs that ended later were read


def recent(
    tenant: str, *, now: int, span: int, services: Services, meter: ReadMeter, is_over: Callable[[], bool]
) -> RecentRuns:
    """The runs that ended in the last ``span`` ms, the latest first, until ``is_over``. Raises Unavailable."""
    tally, begin = Tally(), now - span
    reading = Reading(
        services.history, tenant, Book.ENDED, Search(), after=begin, upto=now, meter=meter, is_over=is_over
    )
    for entry in reading.entries():
        tally.add(entry)
    return RecentRuns(tally=tally, since=max(begin, reading.searched))


def waiting(
    tenant: str, *, now: int, most: int, services: Services, meter: ReadMeter, is_over: Callable[[], bool]
) -> tuple[int, bool]:
    """How many runs but fires are due and wait for a worker, at most ``most``; and whether these are all. Raises Unavailable."""
    spec = FindSpec(search=Search(states=_WAITS), after=-1, upto=now, limit=most)
    finder = Finder(
        services, spec, meter=meter, is_over=is_over, running=lambda tenant, limit, cursor: ((), None), now=now
    )
    found = finder.of_tenant(tenant, None)
    return len(found.runs), found.cursor is None
