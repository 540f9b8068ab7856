"""A page of an answer ends within 250 read units and 0.3 s, counted: each request and each entry takes its time by an injected clock.

The times are twice those that were measured of an idle processor, and those of DynamoDB's slow requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import ceil
from random import Random
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.domain.history.entry import HistoryEntry
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.run import RunState
from quarterjack.domain.times import DAY, HOUR, SECOND
from quarterjack.historian.page_compaction import compact_pages
from quarterjack.history import find, read
from quarterjack.state.history.codec import PageColumns
from quarterjack.state.history.entries import Merge
from quarterjack.stores.history.books import History
from quarterjack.stores.history.pages import ReadMeter
from quarterjack.stores.tables import Row, RowQuery, TableDefinition

from bench.history import T0, TENANT, Bench, CountedTables, ends, fire, one_off

REQUEST = 0.015  # seconds
BATCH, AT_ONCE = 100, 8  # keys of a request, requests at the same time
COLUMN, ENTRY = 1.4e-6, 12e-6  # seconds: to read an entry's columns, to make it or to find that it is not wanted
HELD = 16e-6  # seconds: to sort an entry in and to give it out


class Time:
    """Seconds that were counted."""

    now = 0.0
    factor = 1  # by which the processor is slower

    def __call__(self) -> float:
        return self.now


time = Time()


class TimedTables(CountedTables):
    """Tables whose reads take their time."""

    def page(self, verb: str, query: RowQuery) -> tuple[list[Row], Any]:
        time.now += REQUEST
        return super().page(verb, query)

    def first_pages(self, verb: str, queries: Sequence[RowQuery]) -> list[tuple[list[Row], Any]]:
        began = time.now
        found = super().first_pages(verb, queries)
        time.now = began + REQUEST * ceil(len(queries) / AT_ONCE)
        return found

    def read(self, verb: str, table: TableDefinition, keys: Sequence[Row]) -> tuple[list[Row], list[Row]]:
        time.now += REQUEST * ceil(ceil(len(keys) / BATCH) / AT_ONCE)
        return super().read(verb, table, keys)


class TimedColumns(PageColumns):
    """Pages whose reading takes its time."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        time.now += time.factor * COLUMN * len(self.places)

    def entries(self, tenant: str, **how: Any) -> list[HistoryEntry]:
        between = (place for place in self.places if how["first"] <= place <= how["last"])
        time.now += time.factor * ENTRY * sum(1 for _ in between)
        return super().entries(tenant, **how)


class TimedMerge(Merge):
    def add(self, entries: Iterable[HistoryEntry], last: int) -> None:
        found = list(entries)
        time.now += time.factor * HELD * len(found)
        super().add(found, last)


class TimedBench(Bench):
    """An installation with the history in these tables."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = TimedTables()
        self.services = replace(self.services, history=History(self.tables, retention=90 * DAY))

    def written(self, changes: Iterable[RunChange], window: int = 5 * SECOND) -> int:
        """Deliver changes in batches; the number of entries: runs and places."""
        places, pending = set[object](), list[RunChange]()
        for change in changes:
            if pending and change.at >= pending[0].at + window:
                self.deliver(pending, pending[-1].at + SECOND)
                pending = []
            pending.append(change)
            places.add((change.ref, change.new and change.new.ended_at))
        self.deliver(pending, pending[-1].at + SECOND)
        self.move_to(pending[-1].at + SECOND)
        return len(places)


@pytest.fixture(autouse=True)
def timed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ReadMeter]]:
    """Time is counted; the meters of the calls."""
    meters: list[ReadMeter] = []

    class NotedMeter(ReadMeter):
        def __init__(self) -> None:
            super().__init__()
            meters.append(self)

    monkeypatch.setattr(read, "PageColumns", TimedColumns)
    monkeypatch.setattr(read, "Merge", TimedMerge)
    monkeypatch.setattr("quarterjack.stores.history.pages.ReadMeter", NotedMeter)
    return iter([meters])


def calls(bench: Bench, **conditions: Any) -> tuple[int, list[float]]:
    """How many runs are found, and how long each call took."""
    owner = Scheduler(TENANT, services=bench.services, clock=lambda: bench.clock() + round(time.now * SECOND))
    cursor, found, seconds = None, 0, list[float]()
    while True:
        began = time.now
        page = owner.list_runs(cursor=cursor, limit=1_000, **conditions)
        seconds.append(time.now - began)
        found, cursor = found + len(page.items), page.cursor
        if cursor is None:
            return found, seconds


SEARCHES: dict[str, dict[str, Any]] = {
    "all": {},
    "of one schedule": {"prefix": "team-3/schedule-0003"},
    "failed of one job": {"failed": True, "job": "jobs.job_7"},
    "of no error": {"error_type": "KeyError"},
}


@pytest.fixture(scope="module")
def folded() -> tuple[TimedBench, int]:
    """An hour with 15,000 runs, in parts of 12,000 and 3,000, and some minutes of the next one."""
    bench = TimedBench()
    runs = bench.written(ends(Random(3), TENANT, 15_000 / 3_600, T0, 4_000, fire))
    bench.move_to(T0 + DAY)
    assert compact_pages(bench.services, clock=bench.clock, budget=DAY).failed == 0
    return bench, runs


@pytest.fixture(scope="module")
def spread() -> tuple[TimedBench, int]:
    """Two minutes with 150 runs a second: large pages in eight partitions, bodies beside them."""
    bench = TimedBench()
    return bench, bench.written(ends(Random(4), TENANT, 150, T0 + HOUR, 120, fire))


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("form", ["folded", "spread"])
def test_no_call_goes_beyond_its_bounds(
    form: str, search: str, request: pytest.FixtureRequest, timed: Iterator[list[ReadMeter]]
) -> None:
    bench, runs = request.getfixturevalue(form)
    found, seconds = calls(bench, **SEARCHES[search])
    meters = next(timed)
    print(form, search, found, len(seconds), f"{max(seconds):.3f}", max(m.units for m in meters))  # noqa: T201
    assert max(seconds) <= 0.3
    assert max(meter.units for meter in meters) <= 250
    if search == "all":  # calls end by their limit
        assert found == runs
    else:
        assert sum(seconds) / len(seconds) > 0.1 or len(seconds) <= 2, "no call ends for nothing"


def test_on_a_slow_processor_a_call_stops_within_a_part(
    folded: tuple[TimedBench, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "factor", 4)
    found, seconds = calls(folded[0], prefix="team-3/schedule-0003")
    assert found > 20
    assert max(seconds) <= 0.3


def test_runs_that_ended_at_the_same_time_are_found_once_each() -> None:
    """A thousand of them end within such a time."""
    bench = TimedBench()
    changes = [
        replace(change, new=replace(change.new, ended_at=change.new.ended_at // 10_000 * 10_000))
        for change in ends(Random(6), TENANT, 30, T0, 100, fire)
        if change.new is not None and change.new.ended_at is not None
    ]
    runs = bench.written(changes)
    bench.move_to(T0 + DAY)
    assert compact_pages(bench.services, clock=bench.clock, budget=DAY).hours == 1
    assert calls(bench)[0] == runs > 2 * read.WINDOW


def test_the_open_runs_are_read_in_small_steps(timed: Iterator[list[ReadMeter]]) -> None:
    bench = TimedBench()
    waiting = [
        replace(change, old=None, new=replace(change.new, state=RunState.QUEUED, ended_at=None, started_at=None))
        for change in ends(Random(5), TENANT, 20, T0 + HOUR, 60, one_off)
        if change.new is not None
    ]
    bench.written(waiting)
    for change in waiting:
        assert change.new is not None
        bench.services.ledger.submit(change.new)
    found, seconds = calls(bench, state="QUEUED")
    assert found == len(waiting) > 1_000
    assert max(seconds) <= 0.3
    assert max(meter.units for meter in next(timed)) <= 250
    assert find._MOST + read.MOST_UNITS + 100 <= 250
