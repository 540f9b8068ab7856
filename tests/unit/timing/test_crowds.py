"""The most crowded instant of many timetables."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.times import HOUR, MINUTE
from quarterjack.timing import Rule, Timetable, timetable
from quarterjack.timing.crowds import Crowd, busiest
from quarterjack.timing.timetables import fires

NOON = 1_777_896_000_000


def tables(*expressions: str, window: int = 0) -> list[tuple[int, Timetable]]:
    found = []
    for number, expression in enumerate(expressions):
        table = timetable(Rule(expression=expression, window=window), anchor=NOON, key=f"t/s{number}")
        first = table.next(NOON)
        assert first is not None
        found.append((first, table))
    return found


def test_those_that_fire_before_count_too() -> None:
    assert busiest([]) is None
    hourly, often = ["0 * * * *"] * 3, ["*/20 * * * *"] * 2
    assert busiest(tables(*hourly, *often, "30 12 * * *")) == Crowd(NOON + HOUR, 5)


def test_a_window_leaves_no_crowd() -> None:
    crowd = busiest(tables(*["0 * * * *"] * 50, window=3_600))
    assert crowd is not None
    assert 1 <= crowd.fires < 5


MINUTES = st.lists(st.sampled_from(["0 * * * *", "15 * * * *", "*/15 * * * *", "*/30 * * * *"]), min_size=1, max_size=8)


@given(MINUTES)
def test_no_instant_at_which_one_fires_next_has_more(expressions: list[str]) -> None:
    given_tables = tables(*expressions)
    all_fires = Counter(at for _, table in given_tables for at in fires(table, NOON, NOON + HOUR + MINUTE))
    firsts = {first for first, _ in given_tables}
    crowd = busiest(given_tables)
    assert crowd is not None
    assert crowd.fires == max(all_fires[at] for at in firsts) == all_fires[crowd.at]
