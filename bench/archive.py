"""Writes to the bucket and bytes of the archive, a run, of one busy tenant and of many small ones; over services in memory.

python -m bench archive [--minutes 15] [--window 5]

A run is claimed two minutes ahead, leased at its time and ends half a second later: three transitions, and a fourth change, a heartbeat,
for every tenth run. Batches are what a window of the stream collects, at most 1,000 records. The inbox is compacted once, at the end:
all lies in one hour, whose objects are written once, so they are shared by the runs of the whole hour.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from quarterjack.domain.history.archive_objects import INBOX
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.names import fire_ref
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import DAY, HOUR, MINUTE, SECOND
from quarterjack.historian.archive import ArchiveFilter, archive, compact_archive, read_archive
from quarterjack.historian.context import HistorianContext
from quarterjack.testing import ManualClock
from quarterjack.testing.memory.calls import Detail, Hook
from quarterjack.testing.memory.installation import Memory

from bench.report import Table, write

START = datetime(2026, 11, 22, 12, 3, tzinfo=UTC)
MOST = 1_000  # records of a batch
PUT = 5.0  # $ a million writes
GET = 0.4  # $ a million reads


class Counted(Hook):
    """Requests to the bucket, by operation."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}

    def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
        self.calls[operation] = self.calls.get(operation, 0) + 1
        return ()


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench archive")
    parser.add_argument("--minutes", type=int, default=15)
    parser.add_argument("--window", type=float, default=5)
    given = parser.parse_args(arguments)
    rows = [
        measure("one tenant, 10 runs a second", 1, 600, given.minutes, given.window),
        measure("1,000 tenants, a run a minute each", 1_000, 1, given.minutes, given.window),
    ]
    write("archive", rows)
    Table("archive", rows).show()


def measure(case: str, tenants: int, rate: int, minutes: int, window: float) -> dict[str, object]:
    """``rate`` runs a minute of each tenant."""
    memory, hook = Memory(ManualClock(START)), Counted()
    services, begin = memory.connect(hook), int(START.timestamp()) * SECOND
    changes = sorted(_changes(tenants, rate, minutes, begin), key=lambda change: (change.at, change.sequence))
    runs = tenants * rate * minutes
    began = time.thread_time()
    for number, batch in enumerate(_batches(changes, round(window * SECOND))):
        archive(batch, HistorianContext(services=services, now=batch[-1].at, batch=f"shard-{number:09d}"))
    spent = time.thread_time() - began
    written, inbox = hook.calls["PutObject"], sum(key.startswith(INBOX) for key in memory.archived)
    began = time.thread_time()
    compact_archive(services.archive, clock=lambda: begin + DAY, budget=DAY)
    compacting = time.thread_time() - began
    compacted, stored = hook.calls["PutObject"] - written, sum(map(len, memory.archived.values()))
    puts = written / runs + compacted / (runs * HOUR / (minutes * MINUTE))
    hook.calls.clear()
    began = time.thread_time()
    wanted = ArchiveFilter(since=begin, until=begin + HOUR)
    lines = sum(1 for _ in read_archive(services.archive, "t0", wanted))
    reading = time.thread_time() - began
    return {
        "case": case,
        "runs": runs,
        "puts_per_run": round(puts, 4),
        "dollars_per_million_runs": round(puts * PUT + inbox / runs * GET, 3),
        "bytes_per_run": round(stored / runs, 1),
        "cpu_us_per_run": round(spent / runs * 1e6),
        "compaction_us_per_run": round(compacting / runs * 1e6),
        "objects_per_tenant_hour": round(len(memory.archived) / tenants, 1),
        "read_an_hour_gets": hook.calls.get("GetObject", 0),
        "read_an_hour_us_per_line": round(reading / max(lines, 1) * 1e6),
    }


def _changes(tenants: int, rate: int, minutes: int, begin: int) -> Iterator[RunChange]:
    chance, sequence = random.Random(1), 10**24
    for tenant in range(tenants):
        offset = chance.randrange(MINUTE)
        for number in range(rate * minutes):
            due = begin + offset + number * (MINUTE // rate)
            sequence += 10
            yield from _life(f"t{tenant}/schedule-{number % rate}", due, sequence, chance)


def _life(owner: str, due: int, sequence: int, chance: random.Random) -> Iterator[RunChange]:
    claimed = RunRow(
        ref=fire_ref(owner, due),
        state=RunState.QUEUED,
        revision=1,
        job="reports.daily",
        due=due,
        not_before=due,
        created_at=due - 2 * MINUTE,
    )
    start = due + chance.randrange(SECOND)
    leased = replace(
        claimed,
        state=RunState.RUNNING,
        fence=1,
        attempt=1,
        max_attempts=3,
        worker=f"ip-10-0-0-{chance.randrange(4)}:812",
        lease_token=f"{chance.getrandbits(64):016x}",
        started_at=start,
        leased_at=start,
    )
    ended = replace(leased, state=RunState.SUCCEEDED, ended_at=start + SECOND // 2, lease_token=None)
    rows = [(claimed.created_at, None, claimed), (start, claimed, leased)]
    if not chance.randrange(10):
        rows.append((start, leased, replace(leased, lease_until=start)))
        leased = replace(leased, lease_until=start)
    rows.append((start + SECOND // 2, leased, ended))
    for place, (at, old, new) in enumerate(rows):
        yield RunChange(ref=claimed.ref, sequence=sequence + place, at=at // SECOND * SECOND, old=old, new=new)


def _batches(changes: Sequence[RunChange], window: int) -> Iterator[Sequence[RunChange]]:
    batch: list[RunChange] = []
    for change in changes:
        if batch and (change.at - batch[0].at >= window or len(batch) >= MOST):
            yield batch
            batch = []
        batch.append(change)
    if batch:
        yield batch
