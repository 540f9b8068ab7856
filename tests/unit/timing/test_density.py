"""The densest hour of a rule, against its fires one by one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.timing import Rule, fires, timetable
from quarterjack.timing.rule_fires import densest_hour

MONDAY = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1000)
HOUR, DAY = 3_600_000, 86_400_000
numbers = st.lists(st.integers(0, 59), min_size=1, max_size=6, unique=True).map(lambda found: ",".join(map(str, found)))
clock_field = st.one_of(numbers, st.sampled_from(["*", "*/7", "*/25", "5-20"]))
crons = st.builds(
    lambda s, m, h: f"{s} {m} {h} * * *",
    st.one_of(numbers, st.just("*/20")),
    clock_field,
    st.sampled_from(["*", "9", "9-11", "*/5"]),
)
rates = st.integers(1, 200).map(lambda n: f"rate({n} minutes)" if n > 1 else "rate(1 minute)")
parts = st.lists(
    st.sampled_from(
        ["BYMINUTE=0,30", "BYMINUTE=1,2,3", "BYSECOND=0,15,30,45", "BYSECOND=5", "BYHOUR=8,9", "INTERVAL=7", "COUNT=5"]
    ),
    unique_by=lambda part: part.partition("=")[0],
    max_size=3,
)
rrules = st.builds(
    lambda freq, more: ";".join((f"FREQ={freq}", *more)), st.sampled_from(["MINUTELY", "HOURLY", "DAILY"]), parts
)


def most_in_an_hour(rule: Rule) -> int:
    """By a window of an hour that slides over the first day and a half."""
    found = list(fires(timetable(rule, anchor=MONDAY, key="acme/s"), MONDAY, MONDAY + DAY + DAY // 2))
    begin = most = 0
    for end, due in enumerate(found):
        while due - found[begin] >= HOUR:
            begin += 1
        most = max(most, end - begin + 1)
    return most


@given(expression=st.one_of(crons, rates, rrules))
def test_no_hour_has_more(expression: str) -> None:
    rule = Rule(expression=expression)
    assert densest_hour(rule) >= most_in_an_hour(rule)


@given(expression=crons)
def test_of_one_cron_expression_it_is_exact(expression: str) -> None:
    rule = Rule(expression=expression)
    found = most_in_an_hour(rule)
    assert densest_hour(rule) == found


@pytest.mark.parametrize(
    ("expression", "more", "expected"),
    [
        ("* * * * * *", {}, 3600),
        ("* * * * *", {}, 60),
        ("*/5 * * * *", {"also": ("0 9 * * *",)}, 13),
        ("rate(7 minutes)", {}, 9),
        ("rate(1 day)", {}, 1),
        ("at(2026-12-24T18:00:00)", {}, 1),
        ("* * * * * *", {"max_fires": 10}, 10),
        ("FREQ=SECONDLY;INTERVAL=10", {}, 360),
        ("FREQ=WEEKLY;BYDAY=MO", {}, 1),
        ("FREQ=HOURLY;BYMINUTE=0,20,40;BYSECOND=0,30", {}, 6),
        ("FREQ=MINUTELY;INTERVAL=7", {}, 9),
        ("0 9 * * *", {"timezone": "Europe/Berlin", "exclude": ("weekends",)}, 1),
    ],
)
def test_known_rules(expression: str, more: dict[str, object], expected: int) -> None:
    assert densest_hour(Rule.of(expression, **more)) == expected


def test_it_takes_no_time_however_dense_a_rule_is() -> None:
    began = datetime.now(UTC)
    for _ in range(1_000):
        densest_hour(Rule(expression="* * * * * *"))
    assert datetime.now(UTC) - began < timedelta(seconds=2)
