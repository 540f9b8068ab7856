"""The history: write units a run, bytes an entry, and what a page of an answer costs, over tables in memory.

python -m bench history [--runs 100000] [--minutes 10]

The historian's own code writes into tables in memory, which count units as DynamoDB does: 1 KB a write, 4 KB a strong read. Times are of
this machine's processor, without a network.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from math import ceil
from random import Random
from threading import RLock
from typing import Any

from quarterjack import Scheduler
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.names import RunRef, fire_ref, one_off_ref
from quarterjack.domain.run import Failure, RunRow, RunState
from quarterjack.domain.times import DAY, HOUR, SECOND, from_ms
from quarterjack.historian.context import HistorianContext
from quarterjack.historian.page_compaction import compact_pages
from quarterjack.historian.pages import write_pages
from quarterjack.history import read as paging
from quarterjack.ports.services import Clock, Services
from quarterjack.stores.history.books import History
from quarterjack.stores.history.pages import ReadMeter
from quarterjack.stores.tables import HISTORY, TABLES, Answer, RowWrite
from quarterjack.testing import ManualClock, Memory
from quarterjack.testing.memory.calls import Calls, Hook, MemoryTable
from quarterjack.testing.memory.tables import MemoryTables

from bench.report import Table, write

T0 = 2_094_508_800_000 // DAY * DAY  # midnight
TENANT, JOBS, SCHEDULES, FAILING = "acme", 20, 500, 0.02


class CountedTables(MemoryTables):
    """Tables that count what writes of the history cost."""

    def __init__(self) -> None:
        super().__init__(Calls(Hook(), RLock()), {table: MemoryTable() for table in TABLES})
        self.units = self.bytes = 0

    def store(self, verb: str, writes: Sequence[RowWrite]) -> frozenset[str]:
        for one in writes:
            self._count(one)
        return super().store(verb, writes)

    def write(self, verb: str, write: RowWrite, *, returning: bool = False) -> Answer:
        self._count(write)
        return super().write(verb, write, returning=returning)

    def _count(self, write: RowWrite) -> None:
        if write.table is HISTORY:
            size = sum(len(name) + _length(value) for name, value in write.row.items())
            self.units += ceil(size / 1_024)
            self.bytes += size


def _length(value: Any) -> int:
    return len(value) if isinstance(value, (bytes, str)) else 8


class Bench:
    """An installation whose history is in counted tables."""

    def __init__(self) -> None:
        self.clock = ManualClock(from_ms(T0))
        self.tables = CountedTables()
        services = Memory(self.clock).connect()
        self.services: Services = replace(services, history=History(self.tables, retention=90 * DAY))

    def deliver(self, batch: Sequence[RunChange], now: int) -> None:
        write_pages(batch, HistorianContext(services=self.services, now=now, batch="b"))

    def move_to(self, now: int) -> None:
        self.clock.advance(timedelta(milliseconds=now - self.clock()))


Make = Callable[
    [Random, str, int], tuple[RunRow, RunRow]
]  # the row before and after the end, of a tenant's run that ends at a time


def fire(random: Random, tenant: str, end: int) -> tuple[RunRow, RunRow]:
    number = random.randrange(SCHEDULES)
    took, late = int(random.lognormvariate(6, 1)), random.randrange(50, 900)
    due = (end - took - late) // SECOND * SECOND
    return _rows(
        random, fire_ref(f"{tenant}/team-{number % 7}/schedule-{number:04d}", due), due, end - took, end, number
    )


def one_off(random: Random, tenant: str, end: int) -> tuple[RunRow, RunRow]:
    took = int(random.lognormvariate(6, 1))
    due, ref = end - took - random.randrange(50, 900), one_off_ref(tenant, f"{random.getrandbits(128):032x}")
    return _rows(random, ref, due, end - took, end, random.randrange(SCHEDULES))


def _rows(random: Random, ref: RunRef, due: int, start: int, end: int, number: int) -> tuple[RunRow, RunRow]:
    before = RunRow(
        ref=ref,
        state=RunState.RUNNING,
        revision=1 + number % 3,
        job=f"jobs.job_{number % JOBS}",
        due=due,
        not_before=due,
        created_at=due - random.randrange(60, 180) * SECOND,
        started_at=start,
        attempt=1,
        fence=1,
    )
    if random.random() >= FAILING:
        return before, replace(before, state=RunState.SUCCEEDED, ended_at=end)
    failure = Failure(kind=random.choice(["ValueError", "TimeoutError"]), message="boom")
    return before, replace(before, state=RunState.DEAD, ended_at=end, failure=failure, reason="attempts exhausted")


def ends(random: Random, tenant: str, rate: float, begin: int, seconds: float, make: Make) -> Iterator[RunChange]:
    """Changes by the second; sequence numbers have gaps as DynamoDB's have."""
    at, sequence = float(begin), 300_000_000_000_000_499_659
    while at < begin + seconds * SECOND:
        at += random.expovariate(rate) * SECOND
        sequence += random.randrange(1, 200_000)
        old, new = make(random, tenant, int(at))
        yield RunChange(ref=new.ref, sequence=sequence, at=int(at) // SECOND * SECOND, old=old, new=new)


def batches(changes: Sequence[RunChange], window: int, shards: int) -> Iterator[Sequence[RunChange]]:
    """The changes of each shard in batches of ``window`` seconds."""
    found: dict[tuple[int, int], list[RunChange]] = {}
    for change in changes:
        found.setdefault((change.at // (window * SECOND), hash(change.ref) % shards), []).append(change)
    return iter([found[key] for key in sorted(found)])


# Writes.


def written(
    name: str,
    rate: float,
    *,
    tenants: int = 1,
    window: int = 5,
    shards: int = 1,
    minutes: int = 10,
    waits: bool = False,
) -> Mapping[str, object]:
    """What the historian writes in so many minutes; with ``waits`` one-offs that were submitted an hour before."""
    random, bench = Random(1), Bench()
    make = one_off if waits else fire
    changes = [
        change for n in range(tenants) for change in ends(random, f"tenant-{n}", rate, T0 + HOUR, minutes * 60, make)
    ]
    changes.sort(key=lambda change: change.at)
    if waits:
        queued = [_submitted(change, change.old) for change in changes if change.old is not None]
        changes = [*queued, *changes]
    runs = sum(change.old is not None for change in changes)
    for batch in batches(changes, window, shards):
        bench.deliver(batch, batch[-1].at + SECOND)
    units, size = bench.tables.units, bench.tables.bytes
    bench.move_to(T0 + 4 * HOUR)
    began = time.process_time()
    compact_pages(bench.services, clock=bench.clock, budget=DAY)
    return {
        "case": name,
        "runs": runs,
        "units a run": round(units / runs, 3),
        "bytes a run": round(size / runs, 1),
        "folding, units a run": round((bench.tables.units - units) / runs, 4),
        "folding, ms a run": round(1_000 * (time.process_time() - began) / runs, 3),
    }


def _submitted(end: RunChange, row: RunRow) -> RunChange:
    """The submission of a run, an hour before its end."""
    waiting = replace(row, state=RunState.QUEUED, fence=0, attempt=0, started_at=None)
    return RunChange(ref=row.ref, sequence=end.sequence // 2, at=end.at - HOUR, old=None, new=waiting)


# Reads.


def read(runs: int) -> list[Mapping[str, object]]:
    """A tenant's day of so many runs: what pages of answers cost, before and after the folding."""
    random, bench = Random(2), Bench()
    began, rate = time.process_time(), runs / 86_400
    pending: list[RunChange] = []
    for change in ends(random, TENANT, rate, T0, 86_400, fire):
        if pending and change.at >= pending[0].at + 5 * SECOND:
            bench.deliver(pending, pending[-1].at + SECOND)
            pending = []
        pending.append(change)
    bench.deliver(pending, pending[-1].at + SECOND)
    wrote = time.process_time() - began
    bench.move_to(T0 + DAY)
    rows = [_asked(bench, "as appended", "the last 100", limit=100)]
    bench.move_to(T0 + DAY + 3 * HOUR)
    began = time.process_time()
    compact_pages(bench.services, clock=bench.clock, budget=DAY)
    folded = time.process_time() - began
    rows += [_asked(bench, "folded", name, **conditions) for name, conditions in _ASKED.items()]
    print(
        f"{runs} runs: written in {wrote:.1f} s of processor time, folded in {folded:.1f} s, {bench.tables.bytes / runs:.1f} bytes a run"
    )
    return rows


_ASKED: Mapping[str, Mapping[str, Any]] = {
    "the last 100": {"limit": 100},
    "failed of one job": {"failed": True, "job": "jobs.job_7", "limit": 1_000},
    "of one schedule": {"prefix": "team-3/schedule-0003", "state": "SUCCEEDED", "limit": 1_000},
    "an error of none": {"error_type": "KeyError", "limit": 100},
}


def _asked(bench: Bench, form: str, name: str, **conditions: Any) -> Mapping[str, object]:
    """Page by page, until enough was found or all was searched."""
    owner = Scheduler(TENANT, services=bench.services, clock=bench.clock)
    meters: list[ReadMeter] = []
    plain = paging.PageBudget

    class Noted(plain):  # type: ignore[misc, valid-type]
        """Of real time: the clock of the bench stands still."""

        def __init__(self, meter: ReadMeter, clock: Clock) -> None:
            del clock
            meters.append(meter)
            super().__init__(meter, lambda: time.time_ns() // 1_000_000)

    paging.PageBudget = Noted  # type: ignore[misc]
    cursor, found, seconds = None, 0, list[float]()
    try:
        while True:
            began = time.perf_counter()
            page = owner.list_runs(since=from_ms(T0), cursor=cursor, **conditions)
            seconds.append(time.perf_counter() - began)
            found, cursor = found + len(page.items), page.cursor
            if cursor is None or name == "the last 100":
                break
    finally:
        paging.PageBudget = plain  # type: ignore[misc]
    units = sum(meter.units for meter in meters)
    return {
        "pages": form,
        "asked": name,
        "found": found,
        "calls": len(seconds),
        "read units": round(units),
        "most of a call": round(max(meter.units for meter in meters)),
        "s": round(sum(seconds), 2),
        "longest call, s": round(max(seconds), 2),
        "requests": sum(meter.requests for meter in meters),
    }


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench history")
    parser.add_argument("--runs", type=int, default=100_000, help="of the tenant's day that is searched")
    parser.add_argument("--minutes", type=int, default=10, help="of writes")
    given = parser.parse_args(arguments)
    minutes = given.minutes
    rows = [
        written("10 a second, a shard, 5 s", 10, minutes=minutes),
        written("10 a second, 4 shards, 10 s", 10, window=10, shards=4, minutes=minutes),
        written("100 a second, 4 shards, 5 s", 100, shards=4, minutes=minutes),
        written("1,000 tenants, 1 a minute each, 5 s", 1 / 60, tenants=1_000, minutes=minutes),
        written("10 one-offs a second that waited an hour, 5 s", 10, minutes=minutes, waits=True),
        written("one one-off a minute that waited an hour", 1 / 60, minutes=minutes * 10, waits=True),
    ]
    write("history", rows)
    Table("history", rows).show()
    found = read(given.runs)
    write("history-reads", found)
    Table("history-reads", found).show()
