"""Fires are counted in spans as the timetable steps, across every change of the clocks."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quarterjack.timing import Rule, Timetable, fires, timetable
from quarterjack.timing.tally import FireTally, TooDense
from quarterjack.timing.timetables import LATEST, SpreadFires

from tests.support.timing.expressions import at, ms
from tests.support.timing.tables import CHANGES, DAY, expressions, policies, table_of

HOUR = DAY // 24


def stepped(table: Timetable, edges: list[int]) -> list[int]:
    counts = [0] * (len(edges) - 1)
    for due in fires(table, edges[0] - 1, edges[-1] - 1):
        counts[bisect_right(edges, due) - 1] += 1
    return counts


def is_sparse(table: Timetable, edges: list[int]) -> bool:
    return sum(1 for _ in islice(fires(table, edges[0] - 1, edges[-1]), 3_001)) <= 3_000


spans = st.lists(st.sampled_from([HOUR, HOUR, 3 * HOUR, HOUR // 2, DAY, 60_000, 17 * 60_000]), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(expressions, policies), min_size=1, max_size=3),
    st.sampled_from(CHANGES),
    st.integers(-8 * 24, 48).map(lambda half: half * HOUR // 2),
    spans,
)
def test_the_counts_are_those_of_single_steps(
    asked: list[tuple[str, dict[str, Any]]], change: tuple[str, int], before: int, lengths: list[int]
) -> None:
    zone, instant = change
    edges = [instant * 1000 + before]
    for length in lengths:
        edges.append(edges[-1] + length)
    tables = [table_of(text, zone, edges[0] - DAY, **given) for text, given in asked]
    tables = [table for table in tables if is_sparse(table, edges)]
    tally = FireTally(edges, 10**9)
    for table in [*tables, *tables]:
        found, wanted = tally.add(table), stepped(table, edges)
        assert found.total == sum(wanted)
        assert found.first == (table.next(edges[0] - 1) if found.total else None)
    assert list(tally.sums()) == [2 * sum(each) for each in zip(*[stepped(t, edges) for t in tables], strict=True)] or (
        not tables and not any(tally.sums())
    )
    assert tally.sums() == tally.sums()


EVERY = (
    "*/20 * * * *",
    "0 3 * * 1-5",
    ["0 3 * * 1", "30 2,3 * * *"],
    "rate(7 minutes)",
    "cron(0/15 2-3 ? * 1,3 *)",
    "DTSTART:20260101T023000 RRULE:FREQ=HOURLY;INTERVAL=5",
)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo"])
@pytest.mark.parametrize("expression", EVERY, ids=str)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"exclude": ["weekends", "2026-10-20/2026-10-28"]},
        {"exclude": ["* 2 * * *"]},
        {"window": 600},
        {"window": 7_200},
        {"window": 90, "end": at("2026-10-26T03:10:00")},
        {"jitter": 300, "seed": "s", "exclude": ["* 2 * * *", "30 * * 10 *"]},
        {
            "window": 600,
            "decided": ms("2026-03-26T03:02"),
            "pending": ((ms("2026-03-26T02:00"), ms("2026-03-26T04:05")),),
        },
        {"pending": ((ms("2026-03-26T02:00"), ms("2026-03-26T04:05")), (ms("2020-01-01"), ms("2020-01-02")))},
        {"max_fires": 900},
        {"on_excluded": "next_business_day"},
        {"calendar": "DE"},
    ],
    ids=str,
)
def test_a_year_by_the_hour(expression: Any, zone: str, more: dict[str, Any]) -> None:
    """With two changes of the clocks, which are at midnight in Cairo."""
    begin = ms("2026-03-01")
    table = timetable(Rule.of(expression, timezone=zone, **more), anchor=begin, key="k")
    parts = [list(range(begin + day * DAY, begin + (day + 13) * DAY + 1, HOUR)) for day in (24, 50, 232)]
    for edges in parts:
        tally = FireTally(edges, 10**9)
        tally.add(table)
        assert list(tally.sums()) == stepped(table, edges)


def test_a_day_is_stepped_once() -> None:
    begin = ms("2026-05-01")
    tally = FireTally([begin + hour * HOUR for hour in range(30 * 24 + 1)], 10**9)
    for _ in range(1_000):
        tally.add(timetable(Rule(expression="* * * * *", timezone="Europe/Berlin"), anchor=0))
    assert sum(tally.sums()) == 1_000 * 30 * 1_440
    assert tally.steps < 3 * 1_440, "Berlin's days are divided by UTC's, and the first and the last are cut"


def test_what_has_too_many_fires_is_not_counted() -> None:
    begin = ms("2026-05-01")
    tally = FireTally([begin, begin + 30 * DAY], 10_000)
    with pytest.raises(TooDense):
        tally.add(timetable(Rule(expression="* * * * *", exclude=("5 * * * 1",)), anchor=0))
    assert tally.add(timetable(Rule(expression="0 * * * *"), anchor=0)).total == 720
    assert sum(tally.sums()) == 720


def test_counts_that_are_not_kept_are_summed_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.timing.tally._SPACE", 30)
    begin = ms("2026-05-01")
    edges = [begin + hour * HOUR for hour in range(25)]
    tally, tables = FireTally(edges, 10**6), [timetable(Rule(expression=f"{n} * * * *"), anchor=0) for n in range(5)]
    for table in [*tables, *tables]:
        tally.add(table)
    assert list(tally.sums()) == [10] * 24


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["* * * * *", "*/10 * * * * *", "0 9 * * 1", "rate(45 minutes)"]), st.integers(1, 86_400))
def test_the_fires_of_a_window_are_listed_as_they_are_stepped(expression: str, window: int) -> None:
    begin = ms("2026-03-01")
    table = timetable(Rule(expression=expression, window=window), anchor=begin, key="k")
    assert isinstance(table, SpreadFires)
    found, due = [], begin
    for _ in range(30):
        following = table.next(due)
        assert following is not None
        found.append(due := following)
    assert list(islice(fires(table, begin, LATEST), 30)) == found


def test_an_instant_that_an_earlier_rule_has_moved_is_counted_by_that_rule_alone() -> None:
    begin = ms("2026-05-01")
    edges = [begin + hour * HOUR for hour in range(6)]
    table = timetable(Rule(expression="0 * * * *"), anchor=0)
    spread = SpreadFires(table, window=60_000, seed="s", apart=frozenset({begin + 2 * HOUR}))
    tally = FireTally(edges, 10**6)
    assert tally.add(spread).total == 4
    assert list(tally.sums()) == stepped(spread, edges) == [1, 1, 0, 1, 1]
