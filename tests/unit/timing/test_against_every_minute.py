"""Cron and DST policy against a reading that looks at every minute around every change of the clocks."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quarterjack.errors import ExpressionError
from quarterjack.timing import Rule, fires, timetable

from tests.support.timing.oracle import DAY_MS, Cron, Stretch, changes, crons

CHANGES = changes(1970, 2045)
gaps = st.sampled_from([None, "next_valid", "skip", "shift"])
repeats = st.sampled_from([None, "first", "second", "both"])
stretch = lru_cache(maxsize=64)(Stretch.of)


def check(cron: Cron, zone: str, instant: int, gap: str | None, repeated: str | None) -> None:
    try:
        rule = Rule(expression=cron.text, timezone=zone, gap=gap, repeated=repeated)  # type: ignore[arg-type]
    except ExpressionError as error:
        assert "never occurs" in str(error)  # noqa: PT017 hypothesis draws what may be refused
        return
    after, upto = instant * 1000 - DAY_MS, instant * 1000 + DAY_MS
    expected = [due for due in stretch(zone, instant, 2).fires(cron, gap, repeated) if after < due <= upto]
    table = timetable(rule, anchor=0)
    assert list(fires(table, after, upto)) == expected
    near = sorted(expected, key=lambda due: abs(due - instant * 1000))[:20]
    for asked in {instant * 1000 - 1, instant * 1000, *near, *(due - 1 for due in near)}:
        at = bisect_right(expected, asked)
        assert table.next(asked) == (expected[at] if at < len(expected) else table.next(upto))


@settings(max_examples=100, deadline=None)
@given(crons, st.sampled_from(CHANGES), gaps, repeats)
def test_every_fire_around_a_change_of_the_clocks_is_the_one_that_the_rules_name(
    cron: Cron, change: tuple[str, int], gap: str | None, repeated: str | None
) -> None:
    check(cron, *change, gap, repeated)


@pytest.mark.proof
@settings(max_examples=20_000, deadline=None)
@given(crons, st.sampled_from(CHANGES), gaps, repeats)
def test_the_same_at_length(cron: Cron, change: tuple[str, int], gap: str | None, repeated: str | None) -> None:
    check(cron, *change, gap, repeated)
