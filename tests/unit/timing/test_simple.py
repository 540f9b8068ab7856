"""Rates and single moments."""

from __future__ import annotations

import pytest
from quarterjack.timing import Rule, timetable

from tests.support.timing.expressions import ask, ms, refused

START = "2026-01-01T00:00:30"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("rate(1 second)", ["01-01T00:00:31", "01-01T00:00:32"]),
        ("rate(5 minutes)", ["01-01T00:05:30", "01-01T00:10:30"]),
        ("rate(1 hour)", ["01-01T01:00:30", "01-01T02:00:30"]),
        ("rate(2 days)", ["01-03T00:00:30", "01-05T00:00:30"]),
        (" RATE( 90   Seconds ) ", ["01-01T00:02", "01-01T00:03:30"]),
        ("rate(5 minutes, from=2026-01-01T00:00:00Z)", ["01-01T00:05", "01-01T00:10"]),
        ("rate(5 minutes,from=2025-01-01T00:02)", ["01-01T00:02", "01-01T00:07"]),
        ("rate(1 day, from = 2026-02-01T12:00:00+02:00)", ["02-01T10:00", "02-02T10:00"]),
    ],
)
def test_rates(expression: str, expected: list[str]) -> None:
    assert ask(expression, "UTC", START, 2) == [text + "+00:00" for text in expected]


def test_a_rate_without_an_origin_counts_from_when_the_schedule_became_active() -> None:
    table = timetable(Rule(expression="rate(1 minute)"), anchor=1_500)
    assert [table.next(0), table.next(61_500), table.next(61_499), table.next(10**9)] == [
        61_500,
        121_500,
        61_500,
        1_000_021_500,
    ]


def test_an_origin_is_local_to_the_zone_of_the_schedule() -> None:
    assert ask("rate(1 day, from=2026-07-01T09:00:00)", "Europe/Berlin", "2026-01-01", 1) == ["07-01T09:00+02:00"]
    assert ask("rate(1 day, from=2026-03-29T02:30:00)", "Europe/Berlin", "2026-01-01", 1) == ["03-29T03:00+02:00"]


def test_a_rate_ends_with_the_calendar() -> None:
    table = timetable(Rule(expression="rate(36500 days)"), anchor=ms("2490-01-01"))
    assert table.next(0) is None
    table = timetable(Rule(expression="rate(36500 days, from=2490-01-01T00:00:00Z)"), anchor=0)
    assert table.next(ms("2491-01-01")) is None


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("at(2026-12-24T18:00:00)", ["12-24T18:00+01:00"]),
        ("at(2026-12-24T18:00)", ["12-24T18:00+01:00"]),
        ("At( 2026-12-24t18:00:00z )", ["12-24T19:00+01:00"]),
        ("at(2026-12-24T18:00:00-05:00)", ["12-25T00:00+01:00"]),
        ("at(2020-01-01T00:00:00)", []),
    ],
)
def test_single_moments(expression: str, expected: list[str]) -> None:
    assert ask(expression, "Europe/Berlin", START, 2) == expected


@pytest.mark.parametrize(
    ("expression", "position", "problem"),
    [
        ("rate()", 0, "not understood"),
        ("rate(5)", 0, "not understood"),
        ("rate(-5 minutes)", 0, "not understood"),
        ("rate(1.5 minutes)", 0, "not understood"),
        ("rate(5 minutes", 0, "not understood"),
        ("rate(5 minutes, since=2026-01-01T00:00:00)", 0, "not understood"),
        ("rate(0 minutes)", 5, "above zero"),
        ("rate(5 weeks)", 7, "'weeks' is not a unit"),
        ("rate(40000 days)", 5, "more than 100 years away"),
        ("rate(99999999999999999999999999 seconds)", 5, "more than 100 years away"),
        ("rate(1 day, from=tomorrow)", 17, "'tomorrow' is not a date and time"),
        ("rate(1 day, from=2026-02-30T00:00:00)", 17, "does not exist"),
        ("at()", 0, "not understood"),
        ("at(noon)", 3, "'noon' is not a date and time"),
        ("at(2026-12-24)", 3, "is not a date and time"),
        ("at(2026-12-24T25:00:00)", 3, "does not exist"),
        ("at(2026-12-24T18:00:00+99:00)", 3, "does not exist"),
        ("at(0001-01-01T00:00:00)", 3, "end of the calendar"),
        ("at(9999-12-31T00:00:00)", 3, "end of the calendar"),
        ("at(2130-01-01T00:00:00)", None, "more than 100 years away"),
    ],
)
def test_refusals_name_the_place_and_the_problem(expression: str, position: int | None, problem: str) -> None:
    error = refused(expression)
    assert error.position == position
    assert problem in error.problem
