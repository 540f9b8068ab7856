"""What holds for every schedule, whatever it says."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from quarterjack.timing import Rule, fires, next_fires, previous, timetable
from quarterjack.timing.timetables import LATEST, moment
from quarterjack.timing.zones import zone as zones

from tests.support.timing.expressions import ms
from tests.support.timing.oracle import Cron, crons
from tests.support.timing.tables import CHANGES, DAY, expressions, policies, table_of


@settings(max_examples=150, deadline=None)
@given(expressions, st.sampled_from(CHANGES), st.integers(-DAY, DAY), policies)
def test_fires_ascend_and_each_is_the_next_of_any_moment_before_it(
    expression: str, change: tuple[str, int], offset: int, given: dict[str, Any]
) -> None:
    zone, instant = change
    after = instant * 1000 + offset
    table = table_of(expression, zone, after, **given)
    found = list(islice(fires(table, after, LATEST), 6))
    assert found == sorted(set(found))
    for earlier, later in zip([after, *found], found, strict=False):
        assert table.next(earlier) == table.next((earlier + later) // 2) == table.next(later - 1) == later


@settings(max_examples=150, deadline=None)
@given(expressions, st.sampled_from(CHANGES), policies)
def test_the_previous_of_the_next_leads_back(expression: str, change: tuple[str, int], given: dict[str, Any]) -> None:
    zone, instant = change
    after = instant * 1000 - DAY
    table = table_of(expression, zone, after, **given)
    found = list(islice(fires(table, after, LATEST), 5))
    for earlier, later in zip([None, *found], found, strict=False):
        assert previous(table, later, after + 1) == earlier
    assert previous(table, after + 1, after + 1) is None


@settings(max_examples=100, deadline=None)
@given(st.lists(expressions, min_size=1, max_size=4), st.sampled_from(CHANGES))
def test_a_union_is_the_merged_list_with_each_instant_once(several: list[str], change: tuple[str, int]) -> None:
    zone, instant = change
    after = instant * 1000 - DAY
    single = [list(islice(fires(table_of(each, zone, after), after, LATEST), 8)) for each in several]
    merged = sorted({due for dues in single for due in dues})
    assert list(islice(fires(table_of(several, zone, after), after, LATEST), 8)) == merged[:8]


@settings(max_examples=100, deadline=None)
@given(expressions, st.sampled_from(CHANGES), st.integers(0, 40), st.integers(0, 40), policies)
def test_bounds_cut_and_do_nothing_else(
    expression: str, change: tuple[str, int], begin: int, length: int, given: dict[str, Any]
) -> None:
    zone, instant = change
    after = instant * 1000 - DAY
    start, end = after + begin * 3_600_000, after + (begin + length) * 3_600_000
    given.pop("window", None)  # a window is cut to the end: what moved past it moves less
    whole = islice(fires(table_of(expression, zone, after, **given), start - 1, end), 500)
    cut = table_of(expression, zone, after, start=moment(start), end=moment(end), **given)
    assert list(islice(fires(cut, start - 1, LATEST), 500)) == list(whole)
    assert cut.next(after - DAY) == cut.next(start - 1)


@settings(max_examples=150, deadline=None)
@given(crons, st.sampled_from(CHANGES), st.sampled_from(["first", "second", "both"]))
def test_the_wall_clock_of_every_fire_matches_unless_a_gap_moved_it(
    cron: Cron, change: tuple[str, int], repeated: str
) -> None:
    zone, instant = change
    after = instant * 1000 - 2 * DAY
    for due in islice(fires(table_of(cron.text, zone, after, gap="skip", repeated=repeated), after, LATEST), 20):
        assert cron.matches(moment(due, zone).replace(tzinfo=None))
    skipping = list(islice(fires(table_of(cron.text, zone, after, gap="skip"), after, LATEST), 20))
    for due in islice(fires(table_of(cron.text, zone, after), after, skipping[-1] if skipping else after), 20):
        assert due in skipping or zones.table(zone).changes(due // 1000 - 1, due // 1000)


@settings(max_examples=100, deadline=None)
@given(expressions, st.sampled_from(CHANGES), st.integers(1, 30))
def test_the_list_of_next_fires_is_the_walk_from_fire_to_fire(
    expression: str, change: tuple[str, int], count: int
) -> None:
    zone, instant = change
    after = moment(instant * 1000)
    table_of(expression, zone, instant * 1000)
    listed = next_fires(expression, timezone=zone, after=after, count=count, key="k")
    assert all(
        fire.utcoffset() == timedelta(seconds=zones.table(zone).offset(int(fire.timestamp()))) for fire in listed
    )
    if not expression.startswith("rate"):  # a rate counts from where it is asked
        walked, at = [], after
        for _ in listed:
            (at,) = next_fires(expression, timezone=zone, after=at, count=1, key="k")
            walked.append(at)
        assert [fire.timestamp() for fire in walked] == [fire.timestamp() for fire in listed]


def test_the_previous_fire_of_a_sparse_schedule_is_found() -> None:
    table = timetable(Rule(expression="0 0 29 2 *"), anchor=0)
    assert previous(table, ms("2031-01-01"), ms("2020-01-01")) == ms("2028-02-29")
    assert previous(table, ms("2028-01-01"), ms("2025-01-01")) is None
