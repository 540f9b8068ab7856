"""Compare a sample of ended runs with the history, and let the history list the runs that it lacks.

The repair writes a field of the run's row: this change passes the stream, and so reaches the history in the usual way.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random

from quarterjack.domain.history.entry import Book
from quarterjack.domain.run import RunRow
from quarterjack.domain.times import DAY, MINUTE
from quarterjack.history.read import Reading
from quarterjack.ports.services import Clock, Services
from quarterjack.state.history.entries import tells
from quarterjack.state.history.search import Search
from quarterjack.stores.history.pages import ReadMeter

log = logging.getLogger(__name__)

SAMPLE = 100  # runs of one comparison
BEHIND = 15 * MINUTE  # ms that the historian may be behind without being corrected
_PARTS = (
    (1_024, 8),
    (8, 8),
)  # of a large ledger: into how many parts it is cut, and how many are read, from any one on; of a small one
_MOST_READ = 20_000  # runs that a comparison reads at the most


@dataclass
class HistoryCheck:
    """Counts of one comparison."""

    compared: int = 0
    relisted: int = 0  # runs that the history lacked, or had otherwise


def check_history(services: Services, *, clock: Clock, random: Random, sample: int = SAMPLE) -> HistoryCheck:
    """Compare some runs of the ledger, of all tenants and kinds, with the history. Raises Unavailable."""
    found, now = HistoryCheck(), clock()
    for run in islice(_sample(services, random, now), sample):
        found.compared += 1
        if _is_listed(run, services):
            continue
        if services.upkeep.relist(run.ref, now=clock()):
            found.relisted += 1
            log.error("audit.relisted", extra={"run_id": str(run.ref), "state": str(run.state)})
    return found


def _sample(services: Services, random: Random, now: int) -> Iterator[RunRow]:
    """Ended runs from any part of the ledger, as old as the historian is not behind, and not older than the tenant's history."""
    begins: dict[str, int] = {}  # UTC ms, by tenant
    for run in islice(_rows(services, random), _MOST_READ):
        if run.ended_at is None or not run.is_terminal or run.ended_at > now - BEHIND:
            continue
        tenant = run.ref.tenant
        if tenant not in begins:
            begins[tenant] = _begin_of(tenant, services, now)
        if run.ended_at >= begins[tenant] and run.ended_at > now - services.retention + DAY:
            yield run


def _rows(services: Services, random: Random) -> Iterator[RunRow]:
    for parts, tried in _PARTS:
        first = random.randrange(parts)
        for number in range(first, first + tried):
            yield from services.upkeep.runs(segment=number % parts, segments=parts)


def _begin_of(tenant: str, services: Services, now: int) -> int:
    """The end of the first day (UTC ms) of a tenant's history; what ended earlier may have ended before there was one."""
    days = services.history.days(
        tenant, Book.ENDED, first=(now - services.retention) // DAY, last=now // DAY, meter=ReadMeter()
    )
    return (days[-1].number + 1) * DAY if days else now


def _is_listed(run: RunRow, services: Services) -> bool:
    at = run.ended_at or 0
    reading = Reading(
        services.history,
        run.ref.tenant,
        Book.ENDED,
        Search(schedule=run.ref.schedule),
        after=at - 1,
        upto=at,
        meter=ReadMeter(),
    )
    return any(entry.run == run.ref and tells(entry, run) for entry in reading.entries())
