"""Timetables of every kind, and changes of the clocks, for properties."""

from __future__ import annotations

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from quarterjack.errors import ExpressionError
from quarterjack.timing import Rule, Timetable, timetable

from tests.support.timing.oracle import changes, crons, recurrence_rules

CHANGES = changes(1990, 2040)
DAY = 86_400_000

expressions = st.one_of(
    crons.map(lambda cron: cron.text),
    st.sampled_from(
        [
            "0 9 L * *",
            "30 2 15W * *",
            "0 0 * * 5#3",
            "cron(15 2 ? * 1 *)",
            "H H * * *",
            "*/7 * * * * *",
            "rate(17 minutes)",
        ]
    ),
    recurrence_rules().map(lambda rule: f"DTSTART:19900101T023000 RRULE:{rule}"),
)
policies = st.fixed_dictionaries(
    {},
    optional={
        "gap": st.sampled_from(["next_valid", "skip", "shift"]),
        "repeated": st.sampled_from(["first", "second", "both"]),
        "exclude": st.sampled_from([["weekends"], ["* 2-3 * * *"], ["2030-01-01/2030-06-01"]]),
        "on_excluded": st.sampled_from(["skip", "next_business_day", "previous_business_day"]),
        "window": st.sampled_from([1, 600, 7_200]),
    },
)


def table_of(expression: Any, zone: str, anchor: int, **given: Any) -> Timetable:
    try:
        table = timetable(Rule.of(expression, timezone=zone, **given), anchor=anchor, key="k")
        table.next(anchor)
    except ExpressionError:
        assume(False)
    return table
