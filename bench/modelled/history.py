"""The history of one busy tenant: how full batches and pages are, and what its partitions take. Page sizes are those of the real codec."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from random import Random

from quarterjack.domain.history.entry import Book, HistoryEntry
from quarterjack.domain.names import fire_ref
from quarterjack.domain.run import RunState
from quarterjack.domain.times import SECOND
from quarterjack.historian.pages import pages_of
from quarterjack.state.capacity.figures import PARTITION_WRITES
from quarterjack.state.history.search import Summary

CHANGES = 3  # of a run in the stream: claim, lease, end
BATCH = 1_000  # changes of a batch at the most: infra/roles/historian.py
WINDOW = 10  # seconds for which a batch is collected: the same
SHARDS = 4  # of the stream of a new table
_ROW = 110  # bytes of a page's keys and names
_NOW = 2_094_508_800_000
_SCHEDULES, _JOBS = 20_000, 50  # of the tenant


def history_of(rate: int) -> Mapping[str, object]:
    """Runs of one tenant that end in a second, in the steady state."""
    shards = max(SHARDS, ceil(rate * CHANGES / PARTITION_WRITES.value))
    entries = max(1, min(BATCH // CHANGES, rate * WINDOW // shards))  # of a batch
    batches = rate / entries  # a second, of all shards
    pages = list(pages_of(Book.ENDED, _entries(entries), _NOW, 0))
    units = sum(ceil((len(page.body) + _ROW) / 1_024) + _summary_units(page.summary) for page in pages)
    hottest = batches * units  # no page is spread: the worst case
    return {
        "runs/s": rate,
        "shards": shards,
        "entries a page": entries,
        "bytes a page": sum(len(page.body) for page in pages),
        "units a run": round(units / entries, 4),
        "units/s": round(hottest),
        "spread": any(page.spread for page in pages),
        "of a partition": f"{hottest / PARTITION_WRITES.value:.0%}",
    }


def _summary_units(summary: Summary | None) -> int:
    return 0 if summary is None else ceil((len(str(summary.as_list())) + _ROW) / 1_024)


def _entries(count: int) -> list[HistoryEntry]:
    random, found = Random(1), []
    for number in range(count):
        schedule = random.randrange(_SCHEDULES)
        due = _NOW + random.randrange(WINDOW) * SECOND
        started = due + random.randrange(50, 900)
        found.append(
            HistoryEntry(
                run=fire_ref(f"acme/team-{schedule % 97}/schedule-{schedule:05d}", due),
                at=started + int(random.lognormvariate(6, 1)),
                order=16 * (3 * 10**20 + number * random.randrange(1, 100_000)),
                state=RunState.SUCCEEDED,
                job=f"jobs.job_{schedule % _JOBS}",
                due=due,
                not_before=due,
                created_at=due - random.randrange(60, 180) * SECOND,
                started_at=started,
                attempt=1,
                fence=1,
                revision=1 + schedule % 3,
            )
        )
    return found
