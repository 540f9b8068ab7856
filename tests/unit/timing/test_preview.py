"""Previews and explanations."""

from __future__ import annotations

import sys

import pytest
from quarterjack.errors import ExpressionError
from quarterjack.timing import PreviewRow, Rule, around_changes, explain, rows

from tests.support.timing.expressions import at, short

# Europe/Berlin            UTC          wall clock
#   2026-03-29   01:00        02:00 +01:00 → 03:00 +02:00
#   2026-10-25   01:00        03:00 +02:00 → 02:00 +01:00


def shown(found: list[PreviewRow] | tuple[PreviewRow, ...]) -> list[tuple[str, str]]:
    return [(short(row.at), row.mark or row.kind) for row in found]


def test_a_preview_shows_fires_and_the_changes_between_them() -> None:
    rule = Rule(expression="30 2 * * *", timezone="Europe/Berlin")
    found = rows(rule, after=at("2026-03-28"), count=3)
    assert shown(found) == [
        ("03-28T02:30+01:00", "fire"),
        ("03-29T03:00+02:00", "forward"),
        ("03-29T03:00+02:00", "gap"),
        ("03-30T02:30+02:00", "fire"),
    ]
    assert [row.note for row in found[1:3]] == [
        "clocks go forward from 02:00 to 03:00",
        "stands for a time that the clocks skip",
    ]


def test_around_changes_shows_both_sides_of_each() -> None:
    rule = Rule(expression="*/30 * * * *", timezone="Europe/Berlin")
    assert shown(around_changes(rule, after=at("2026-10-01"), changes=1, each=3)) == [
        ("10-25T01:30+02:00", "fire"),
        ("10-25T02:00+02:00", "first pass"),
        ("10-25T02:30+02:00", "first pass"),
        ("10-25T02:00+01:00", "back"),
        ("10-25T02:00+01:00", "second pass"),
        ("10-25T02:30+01:00", "second pass"),
        ("10-25T03:00+01:00", "fire"),
    ]
    fixed = Rule(expression="30 2 * * *", timezone="Europe/Berlin")
    assert shown(around_changes(fixed, after=at("2026-01-01"), changes=2, each=1)) == [
        ("03-28T02:30+01:00", "fire"),
        ("03-29T03:00+02:00", "forward"),
        ("03-29T03:00+02:00", "gap"),
        ("10-25T02:30+02:00", "first pass"),
        ("10-25T02:00+01:00", "back"),
        ("10-26T02:30+01:00", "fire"),
    ]


def test_before_a_schedule_began_there_is_nothing_to_show() -> None:
    found = around_changes(
        Rule(expression="rate(6 hours)", timezone="Europe/Berlin"), after=at("2026-03-28T14:00"), changes=1
    )
    assert shown(found)[:2] == [("03-28T21:00+01:00", "fire"), ("03-29T03:00+02:00", "forward")]


def test_a_zone_without_changes_has_none_to_show() -> None:
    assert around_changes(Rule(expression="* * * * *", timezone="Asia/Tokyo"), after=at("2026-01-01")) == []


def test_a_change_of_the_date_shows_the_dates() -> None:
    apia = Rule(expression="0 12 * * *", timezone="Pacific/Apia")
    notes = [row.note for row in around_changes(apia, after=at("2011-12-20"), changes=1)]
    assert "clocks go forward from 2011-12-30 00:00 to 2011-12-31 00:00" in notes


def test_an_ended_or_counted_or_spread_rule_is_shown_too() -> None:
    assert rows(Rule(expression="at(2020-01-01T00:00:00)"), after=at("2026-01-01"), count=3) == []
    counted = Rule(expression="30 2 * * *", timezone="Europe/Berlin", max_fires=2)
    assert [mark for _, mark in shown(rows(counted, after=at("2026-03-28"), count=9))] == ["fire", "forward", "gap"]
    spread = Rule(expression="30 2 * * *", timezone="Europe/Berlin", window=3600)
    assert [row.mark for row in rows(spread, after=at("2026-03-28"), count=9, key="k") if row.kind == "fire"] == [
        ""
    ] * 9


@pytest.mark.parametrize("count", [0, 1001])
def test_a_preview_is_bounded(count: int) -> None:
    with pytest.raises(ExpressionError, match="count"):
        rows(Rule(expression="* * * * *"), after=at("2026-01-01"), count=count)


@pytest.mark.parametrize(("changes", "each"), [(0, 1), (11, 1), (1, 0), (1, 101)])
def test_a_preview_around_changes_is_bounded(changes: int, each: int) -> None:
    with pytest.raises(ExpressionError):
        around_changes(Rule(expression="* * * * *"), after=at("2026-01-01"), changes=changes, each=each)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("30 2 * * *", "At 02:30"),
        ("@daily", "At 00:00"),
        ("*/10 * * * * *", "Every 10 seconds"),
        ("0 9 * * 1-5", "At 09:00, Monday through Friday"),
        ("cron(0 9 ? * 2-6 *)", "At 09:00, Monday through Friday"),
        ("0 9 * * 5L", "At 09:00, on the last Friday of the month"),
        ("0 9 13 * 5", "At 09:00, on day 13 of the month, or on Friday (either day field is enough)"),
        ("0 9 */2 * 1", "At 09:00, every 2 days, and on Monday (both day fields must match)"),
        ("cron(0 9 ? * FRI#1 *)", "At 09:00, on the first Friday of the month"),
        ("H H(0-5) * * *", "At 04:32"),
        ("0 H 2 * * *", "At 02:32"),
        ("rate(90 minutes)", "Every 90 minutes of elapsed time"),
        ("rate(1 day, from=2026-01-01T09:00:00)", "Every day of elapsed time from 2026-01-01 09:00:00 on"),
        ("at(2026-12-24T18:00:00Z)", "Once, at 2026-12-24 18:00:00 UTC"),
        (
            "DTSTART:20260101T090000\nRRULE:FREQ=DAILY",
            "As the recurrence rule says: DTSTART:20260101T090000 RRULE:FREQ=DAILY",
        ),
        (["@hourly", "0 12 * * *"], "Every hour; and at 12:00"),
    ],
)
def test_expressions_in_words(expression: str, words: str) -> None:
    assert explain(expression, after=at("2026-01-01"), key="k").words == words


def test_an_explanation_reads_as_text() -> None:
    text = str(explain("30 2 * * *", "Europe/Berlin", after=at("2026-03-28"), count=2))
    assert text.splitlines() == [
        "At 02:30 (Europe/Berlin)",
        "  2026-03-28T02:30:00+01:00",
        "~ 2026-03-29T03:00:00+02:00  clocks go forward from 02:00 to 03:00",
        "  2026-03-29T03:00:00+02:00  stands for a time that the clocks skip",
    ]


def test_what_the_library_cannot_say_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    import cron_descriptor  # type: ignore[import-untyped]

    def fail(*_: object) -> str:
        raise IndexError

    monkeypatch.setattr(cron_descriptor, "get_description", fail)
    assert explain("0 9 * * *", after=at("2026-01-01")).words == "As the cron expression says: 0 9 * * *"


def test_without_the_library_the_refusal_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cron_descriptor", None)
    with pytest.raises(ExpressionError, match=r"\[explain\]"):
        explain("0 9 * * *", after=at("2026-01-01"))


def test_h_without_an_identity_cannot_be_explained() -> None:
    with pytest.raises(ExpressionError, match="identity"):
        explain("H 9 * * *", after=at("2026-01-01"))


def test_a_manual_schedule_has_no_fires_to_show_and_its_rule_no_clock_changes() -> None:
    rule = Rule(expression="manual", timezone="Europe/Berlin")
    assert rows(rule, after=at("2026-03-28"), count=3) == []
