"""Why a rule has no fire at an instant: each layer names itself, and the fire that stands for the instant."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.times import from_ms, to_ms
from quarterjack.timing import Rule, timetable
from quarterjack.timing.absence import Absence, Layer, absence

BERLIN = ZoneInfo("Europe/Berlin")
ANCHOR = to_ms(datetime(2026, 1, 1, tzinfo=UTC), "anchor")
KEY = "acme/s"


def found(at: datetime, expression: str, **more: Any) -> Absence | None:
    return absence(Rule(expression=expression, **more), to_ms(at, "at"), anchor=ANCHOR, key=KEY)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


NIGHTLY: dict[str, Any] = {"expression": "30 2 * * *", "timezone": "Europe/Berlin"}
MORNING = "0 9 * * *"
OFF = ("weekends", "2026-05-04/2026-05-08", "* 9 13 5 *")


@pytest.mark.parametrize(
    ("at", "rule", "layer", "words", "moved"),
    [
        (
            utc("2026-05-04 09:01"),
            {"expression": MORNING},
            Layer.EXPRESSION,
            "does not match Mon 2026-05-04 09:01:00 in UTC",
            None,
        ),
        (
            utc("2026-05-04 09:01"),
            {"expression": MORNING, "also": ("0 10 * * *",)},
            Layer.EXPRESSION,
            "none of '0 9 * * *', '0 10 * * *'",
            None,
        ),
        (
            datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN),
            NIGHTLY,
            Layer.CLOCKS,
            "so 02:30 did not come (gap=next_valid)",
            "2026-03-29 01:00",
        ),
        (
            datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN),
            NIGHTLY | {"gap": "skip"},
            Layer.CLOCKS,
            "no fire stands for it",
            None,
        ),
        (
            datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN),
            NIGHTLY,
            Layer.CLOCKS,
            "this is the second time",
            "2026-10-25 00:30",
        ),
        (
            datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN),
            NIGHTLY | {"repeated": "second"},
            Layer.CLOCKS,
            "this is the first time",
            "2026-10-25 01:30",
        ),
        (
            utc("2026-12-25 09:00"),
            {"expression": MORNING, "calendar": "DE-BY"},
            Layer.HOLIDAY,
            "is Christmas Day in calendar 'DE-BY'",
            None,
        ),
        (
            utc("2026-12-25 09:00"),
            {"expression": MORNING, "calendar": "DE-BY", "on_excluded": "next_business_day"},
            Layer.HOLIDAY,
            "Christmas Day",
            "2026-12-28 09:00",
        ),
        (
            utc("2026-12-26 09:00"),
            {"expression": MORNING, "on_excluded": "previous_business_day"},
            Layer.EXCLUSION,
            "is on a weekend",
            "2026-12-25 09:00",
        ),
        (
            utc("2026-05-05 09:00"),
            {"expression": MORNING, "exclude": OFF},
            Layer.EXCLUSION,
            "by '2026-05-04/2026-05-08'",
            None,
        ),
        (utc("2026-05-13 09:00"), {"expression": MORNING, "exclude": OFF}, Layer.EXCLUSION, "by '* 9 13 5 *'", None),
        (
            utc("2026-05-10 09:00"),
            {"expression": MORNING, "exclude": OFF},
            Layer.EXCLUSION,
            "weekend, which is excluded",
            None,
        ),
        (
            utc("2026-05-10 09:00"),
            {"expression": MORNING, "start": utc("2026-06-01 00:00")},
            Layer.START,
            "the rule starts at",
            None,
        ),
        (
            utc("2026-05-10 09:00"),
            {"expression": MORNING, "end": utc("2026-04-01 00:00")},
            Layer.END,
            "the rule ended at",
            None,
        ),
        (
            utc("2026-05-10 09:00"),
            {"expression": MORNING, "max_fires": 3},
            Layer.MAX_FIRES,
            "was 2026-01-03T09:00:00+00:00",
            None,
        ),
        (
            utc("2026-01-02 09:00"),
            {"expression": MORNING, "window": 600},
            Layer.SPREAD,
            "window=600",
            "2026-01-02 09:07:01",
        ),
    ],
)
def test_each_layer_says_so(at: datetime, rule: dict[str, Any], layer: Layer, words: str, moved: str | None) -> None:
    why = found(at, **rule)
    assert why is not None
    assert (why.layer, why.moved_to) == (layer, None if moved is None else to_ms(utc(moved), "moved"))
    assert words in why.words


def test_a_manual_schedule_is_never_due() -> None:
    why = found(utc("2026-05-04 09:00"), "manual")
    assert why is not None
    assert why.words == "'manual' does not match Mon 2026-05-04 09:00:00 in UTC"


def test_a_fire_is_not_absent() -> None:
    assert found(utc("2026-05-04 09:00"), MORNING) is None
    assert found(datetime(2026, 3, 29, 3, tzinfo=BERLIN), **NIGHTLY) is None


RULES = (
    Rule(**NIGHTLY),
    Rule(**NIGHTLY, gap="skip"),
    Rule(**NIGHTLY, gap="shift", repeated="both"),
    Rule(expression="*/30 * * * *", timezone="Australia/Lord_Howe", exclude=("weekends",), calendar="AU"),
    Rule(expression="15,45 1-3 * * *", timezone="America/New_York", on_excluded="next_business_day", calendar="US"),
    Rule(expression="rate(90 minutes)", window=300, max_fires=500),
    Rule(
        expression="30 2 * * *", timezone="Europe/Berlin", on_excluded="previous_business_day", exclude=("0 2 * * *",)
    ),
)


@given(rule=st.sampled_from(RULES), minute=st.integers(0, 366 * 24 * 60), off=st.sampled_from([0, 0, 0, 1, 1_800_000]))
def test_an_instant_is_a_fire_or_absent_and_a_moved_one_is_a_fire(rule: Rule, minute: int, off: int) -> None:
    at = ANCHOR + minute * 60_000 + off
    table = timetable(rule, anchor=ANCHOR, key=KEY)
    why = absence(rule, at, anchor=ANCHOR, key=KEY)
    assert (why is None) == (table.next(at - 1) == at)
    if why is not None and why.moved_to is not None:
        assert table.next(why.moved_to - 1) == why.moved_to, from_ms(why.moved_to)
        assert why.moved_to != at
