"""Recurrence rules of RFC 5545. That their dates are right is shown beside dateutil in ``test_peers``."""

from __future__ import annotations

import pytest
from quarterjack.errors import ExpressionError
from quarterjack.timing import Rule, next_fires, timetable
from quarterjack.timing.zones import windows
from quarterjack.timing.zones import zone as zones

from tests.support.timing.expressions import ask, at, ms, refused

START = "2026-01-01T00:00:30"


def test_a_start_is_local_to_the_zone_of_the_schedule() -> None:
    assert ask("DTSTART:20260105T090000\nRRULE:FREQ=WEEKLY;BYDAY=MO", "Europe/Berlin", START, 2) == [
        "01-05T09:00+01:00",
        "01-12T09:00+01:00",
    ]


def test_a_zone_of_its_own_wins() -> None:
    assert ask("DTSTART:20260105T090000Z\nRRULE:FREQ=DAILY", "Europe/Berlin", "2026-06-01", 1) == ["06-01T11:00+02:00"]
    rule = "DTSTART;TZID=America/New_York:20260105T090000 RRULE:FREQ=DAILY"
    assert ask(rule, "Europe/Berlin", "2026-06-01", 1) == ["06-01T15:00+02:00"]


def test_without_a_start_it_begins_when_the_schedule_became_active() -> None:
    assert ask("FREQ=DAILY;INTERVAL=2", "UTC", START, 2) == ["01-03T00:00:30+00:00", "01-05T00:00:30+00:00"]
    assert ask("RRULE:FREQ=HOURLY;BYMINUTE=0;BYSECOND=0", "UTC", START, 1) == ["01-01T01:00+00:00"]
    table = timetable(Rule(expression="FREQ=DAILY", timezone="Europe/Berlin"), anchor=ms("2026-01-01T08:00"))
    assert table.next(0) == ms("2026-01-01T08:00")


def test_count_and_until_end_it() -> None:
    assert len(ask("DTSTART:20260101T000000 RRULE:FREQ=DAILY;COUNT=3", "UTC", "2025-01-01", 9)) == 3
    assert ask("DTSTART:20260101T000000 RRULE:FREQ=DAILY;COUNT=3", "UTC", "2026-01-02", 9) == ["01-03T00:00+00:00"]
    until = "DTSTART:20260101T000000 RRULE:FREQ=DAILY;UNTIL=20260103T000000"
    assert len(ask(until, "UTC", "2025-01-01", 9)) == 3
    assert len(ask(until + "Z", "Asia/Tokyo", "2025-01-01", 9)) == 3
    assert len(ask(until + "Z", "America/New_York", "2025-01-01", 9)) == 2
    assert len(ask("DTSTART;VALUE=DATE:20260101 RRULE:FREQ=DAILY;UNTIL=20260103", "UTC", "2025-01-01", 9)) == 3


def test_dates_are_added_and_removed() -> None:
    rule = "DTSTART:20260101T090000\nRRULE:FREQ=DAILY;COUNT=4\nEXDATE:20260102T090000,20260103T090000"
    rule += "\nRDATE:20260110T120000"
    assert ask(rule, "UTC", START, 9) == ["01-01T09:00+00:00", "01-04T09:00+00:00", "01-10T12:00+00:00"]
    assert ask("DTSTART:20260101T090000\nRDATE:20260103T090000", "UTC", START, 9) == [
        "01-01T09:00+00:00",
        "01-03T09:00+00:00",
    ]
    assert ask("RDATE;TZID=Asia/Tokyo:20260103T090000 RDATE;VALUE=DATE:20260105", "UTC", START, 9) == [
        "01-03T00:00+00:00",
        "01-05T00:00+00:00",
    ]


def test_several_rules_are_united() -> None:
    rule = "DTSTART:20260101T090000 RRULE:FREQ=WEEKLY;BYDAY=MO RRULE:FREQ=WEEKLY;BYDAY=TU"
    assert ask(rule, "UTC", START, 2) == ["01-05T09:00+00:00", "01-06T09:00+00:00"]


# Europe/Berlin            UTC          wall clock
#   2026-03-29   01:00        02:00 +01:00 → 03:00 +02:00
#   2026-10-25   01:00        03:00 +02:00 → 02:00 +01:00


def test_a_skipped_time_takes_the_offset_before_the_gap_and_a_repeated_one_is_its_first() -> None:
    rule = "DTSTART:20260101T023000\nRRULE:FREQ=DAILY"
    assert ask(rule, "Europe/Berlin", "2026-03-28T12:00", 2) == ["03-29T03:30+02:00", "03-30T02:30+02:00"]
    assert ask(rule, "Europe/Berlin", "2026-10-24T12:00", 2) == ["10-25T02:30+02:00", "10-26T02:30+01:00"]


def test_duplicates_that_a_gap_makes_are_merged() -> None:
    rule = "DTSTART:20260101T000000\nRRULE:FREQ=MINUTELY;INTERVAL=30"
    assert ask(rule, "Europe/Berlin", "2026-03-29T00:29", 4) == [
        "03-29T01:30+01:00",
        "03-29T03:00+02:00",
        "03-29T03:30+02:00",
        "03-29T04:00+02:00",
    ]


def test_the_policy_of_the_schedule_overrides_the_rfc() -> None:
    rule = "DTSTART:20260101T023000\nRRULE:FREQ=DAILY"
    assert ask(rule, "Europe/Berlin", "2026-03-28T12:00", 1, gap="skip") == ["03-30T02:30+02:00"]
    assert ask(rule, "Europe/Berlin", "2026-10-24T12:00", 2, repeated="both") == [
        "10-25T02:30+02:00",
        "10-25T02:30+01:00",
    ]


def test_numbered_and_plain_weekdays_are_united() -> None:
    rule = "DTSTART:20260101T000000 RRULE:FREQ=MONTHLY;BYDAY=1MO,-1FR,SU"
    assert [text[:5] for text in ask(rule, "UTC", START, 6)] == ["01-04", "01-05", "01-11", "01-18", "01-25", "01-30"]


def test_positions_pick_from_each_period() -> None:
    last_workday = "DTSTART:20260101T090000 RRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"
    assert [text[:5] for text in ask(last_workday, "UTC", START, 3)] == ["01-30", "02-27", "03-31"]
    weekly = "DTSTART:20260101T090000 RRULE:FREQ=WEEKLY;BYDAY=MO,FR;BYSETPOS=2"
    assert [text[:5] for text in ask(weekly, "UTC", START, 2)] == ["01-02", "01-09"]


def test_a_rule_begun_long_ago_is_asked_without_walking_through_its_past() -> None:
    rule = "DTSTART:19000101T000000 RRULE:FREQ=SECONDLY;INTERVAL=7"
    assert len(ask(rule, "UTC", START, 100)) == 100


def test_weeks_that_reach_into_a_neighbouring_year_count() -> None:
    # week 1 of 2026 begins on December 29th 2025
    assert ask("DTSTART:20251201T000000 RRULE:FREQ=YEARLY;BYWEEKNO=1;BYDAY=MO,TH", "UTC", "2025-12-01", 3) == [
        "12-29T00:00+00:00",
        "01-01T00:00+00:00",
        "01-04T00:00+00:00",
    ]


# ISO weeks: 53 of 2020 has December 30th; -53 of 2026, its first, has December 31st 2025; 53 of 2026 has December 30th


def test_a_year_has_a_53rd_week_only_now_and_then() -> None:
    rule = "DTSTART:20200101T000000 RRULE:FREQ=YEARLY;BYWEEKNO=53,-53;BYDAY=WE"
    assert ask(rule, "UTC", "2020-02-01", 3) == ["12-30T00:00+00:00", "12-31T00:00+00:00", "12-30T00:00+00:00"]


@pytest.mark.parametrize(
    ("expression", "position", "problem"),
    [
        ("RRULE:FREQ=DAILY;INTERVAL=0", 26, "'0' is not a whole number from 1"),
        ("FREQ=YEARLY;INTERVAL=101", 21, "from 1 to 100"),
        ("FREQ=DAILY;COUNT=1001", 17, "from 1 to 1000"),
        ("FREQ=DAILY;COUNT=x", 17, "'X' is not a whole number"),
        ("FREQ=YEARLY;BYMONTH=13", 20, "from 1 to 12"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", 24, "counts from 1"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,32", 26, "from -31 to 31"),
        ("FREQ=FORTNIGHTLY", 5, "the frequency is missing or unknown"),
        ("RRULE:INTERVAL=2", 6, "the frequency is missing or unknown"),
        ("FREQ=DAILY;FREQ=DAILY", 11, "cannot stand here"),
        ("FREQ=DAILY;BYEASTER=1", 11, "cannot stand here"),
        ("FREQ=DAILY;COUNT", 11, "cannot stand here"),
        ("FREQ=DAILY;COUNT=1;UNTIL=20260101T000000Z", 17, "exclude each other"),
        ("FREQ=DAILY;BYWEEKNO=1", 20, "no meaning with FREQ=DAILY"),
        ("FREQ=MONTHLY;BYYEARDAY=1", 23, "no meaning with FREQ=MONTHLY"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", 23, "no meaning with FREQ=WEEKLY"),
        ("FREQ=WEEKLY;BYDAY=1MO", 18, "months or years"),
        ("FREQ=YEARLY;BYWEEKNO=1;BYDAY=1MO", 29, "months or years"),
        ("FREQ=DAILY;BYDAY=0MO", 17, "'0MO' is not a weekday"),
        ("FREQ=DAILY;BYDAY=XX", 17, "'XX' is not a weekday"),
        ("FREQ=MONTHLY;BYDAY=54MO", 19, "'54MO' is not a weekday"),
        ("FREQ=DAILY;WKST=1", 16, "'1' is not a weekday"),
        ("FREQ=DAILY;BYSETPOS=1", 20, "there is none"),
        ("FREQ=DAILY;UNTIL=tomorrow", 17, "is not a date or date-time"),
        ("DTSTART:20260101T090000 RRULE:FREQ=DAILY;UNTIL=20260201", 41, "a date, but DTSTART has a time"),
        ("DTSTART;VALUE=DATE:20260101 RRULE:FREQ=DAILY;UNTIL=20260201T000000", 45, "a time, but DTSTART is a date"),
        ("DTSTART:20260230T000000\nRRULE:FREQ=DAILY", 8, "does not exist"),
        ("DTSTART:20260101 DTSTART:20260101", 17, "cannot stand here"),
        ("DTSTART;TZID=Mars/Base:20260101T000000", None, "not a name of the IANA"),
        ("DTSTART;X=1:20260101T000000", 0, "the parameter 'X=1' is not supported"),
        ("RDATE;VALUE=PERIOD:20260101T000000/PT1H", 0, "is not supported"),
        ("EXRULE:FREQ=DAILY", 0, "cannot stand here"),
        ("RRULE;X=1:FREQ=DAILY", 0, "cannot stand here"),
        ("RRULE", 0, "is not a line"),
        ("EXDATE:20260101T000000", 0, "nothing recurs"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", 0, "no day up to the year 2499 matches"),
        ("FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", 0, "no day up to the year 2499 matches"),
        ("FREQ=SECONDLY;INTERVAL=86399;BYHOUR=5;BYMINUTE=5;BYSECOND=5", 0, "steps apart"),
        ("FREQ=DAILY;BYHOUR=1;BYSETPOS=2;COUNT=5", 0, "steps apart"),
        ("RRULE:FREQ=DAILY;BYDAY=" + "MO," * 700, None, "longer than 2048"),
    ],
)
def test_refusals_name_the_place_and_the_problem(expression: str, position: int | None, problem: str) -> None:
    error = refused(expression)
    assert error.position == position
    assert problem in error.problem


@pytest.mark.parametrize(
    ("start", "until", "remedy"),
    [
        ("DTSTART;VALUE=DATE:20260101", "20260303T090000", "write UNTIL=20260303, the last day"),
        (  # the midnight of 4 March in Berlin
            "DTSTART;VALUE=DATE:20260101",
            "20260303T230000Z",
            "write UNTIL=20260303, the last day in UTC, or the day that it is in your zone",
        ),
        ("DTSTART:20260101T090000", "20260303", "write UNTIL=20260303T235959, the last day"),
    ],
)
def test_the_remedy_for_an_until_of_the_other_kind_has_its_own_day(start: str, until: str, remedy: str) -> None:
    assert refused(f"{start} RRULE:FREQ=DAILY;UNTIL={until}").remedy == remedy


def test_the_remedy_for_an_exdate_with_a_time_has_its_own_day() -> None:
    whole_days = "DTSTART;VALUE=DATE:20260101 RRULE:FREQ=DAILY EXDATE:"
    assert refused(f"{whole_days}20260302T000000").remedy == "write 20260302"
    assert refused(f"{whole_days}20260301T230000Z").remedy == "write 20260301, or the day that it is in your zone"


def test_a_rule_that_never_matches_is_refused_where_it_is_written() -> None:
    with pytest.raises(ExpressionError, match="no day up to the year"):
        Rule(expression="DTSTART:20260101T000000 RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30")


def test_what_never_meets_its_interval_has_no_fires() -> None:
    assert (
        ask("DTSTART:20260101T000000 RRULE:FREQ=HOURLY;INTERVAL=24;BYHOUR=5;BYMONTH=1;BYMONTHDAY=1", "UTC", START) == []
    )
    assert ask("DTSTART:20260101T000000 RRULE:FREQ=YEARLY;BYMONTHDAY=1;BYMONTH=1;BYSETPOS=2", "UTC", START) == []


def test_a_rule_ends_with_the_calendar() -> None:
    yearly = "DTSTART:20260101T000000 RRULE:FREQ=YEARLY"
    assert ask(yearly, "UTC", "2497-06-01", 9) == ["01-01T00:00+00:00", "01-01T00:00+00:00"]
    monthly = "DTSTART:20260101T000000 RRULE:FREQ=MONTHLY;INTERVAL=1180;BYMONTHDAY=1"
    assert ask(monthly, "UTC", "2490-06-01", 9) == []
    daily = "DTSTART:20260101T000000 RRULE:FREQ=DAILY"
    assert len(ask(daily, "UTC", "2499-12-27", 9)) == 2


def days_of(rule: str, zone: str = "UTC", after: str = "2024-01-01", most: int = 6) -> list[str]:
    found = next_fires(rule, timezone=zone, after=at(after), count=most)
    return [f"{due:%m-%d %H:%M}" for due in found]


VIENNA = "DTSTART;TZID=Europe/Vienna:20240317T100000\nRRULE:FREQ=WEEKLY;BYDAY=SU;UNTIL=20240526T080000Z\n"


def test_a_date_excludes_the_day_of_an_occurrence_with_a_time() -> None:
    """nextcloud/server#44600, sabre-io/vobject#555, ical-org/ical.net#830, kewisch/ical.js#670, libical#56, lib-recur#56."""
    rule = f"{VIENNA}EXDATE;VALUE=DATE:20240331\nEXDATE;VALUE=DATE:20240421"
    assert days_of(rule, "Europe/Vienna", most=20) == [
        f"{day} 10:00" for day in ("03-17", "03-24", "04-07", "04-14", "04-28", "05-05", "05-12", "05-19", "05-26")
    ]
    in_one = f"{VIENNA}EXDATE:20240331,20240421"
    assert days_of(in_one, "Asia/Tokyo", most=20) == days_of(rule, "Asia/Tokyo", most=20), "the days of DTSTART's zone"


def test_a_date_adds_a_day_at_the_time_of_the_start() -> None:
    rule = "DTSTART:20260101T090000\nRRULE:FREQ=WEEKLY\nRDATE;VALUE=DATE:20260110"
    assert days_of(rule, most=3) == ["01-01 09:00", "01-08 09:00", "01-10 09:00"]


def test_dates_beside_a_start_that_is_a_date_are_midnights() -> None:
    rule = "DTSTART;VALUE=DATE:20260101 RRULE:FREQ=DAILY EXDATE;VALUE=DATE:20260102 RDATE;VALUE=DATE:20251230"
    assert days_of(rule, most=3) == ["12-30 00:00", "01-01 00:00", "01-03 00:00"]


@pytest.mark.parametrize(
    "zone",
    ["America/New_York", '"America/New_York"', "Eastern Standard Time", '"Eastern Standard Time"'],
)
def test_a_zone_may_be_quoted_and_be_a_name_of_windows(zone: str) -> None:
    assert days_of(f"DTSTART;TZID={zone}:20260105T090000\nRRULE:FREQ=WEEKLY", most=2) == ["01-05 14:00", "01-12 14:00"]
    assert days_of(f"DTSTART;TZID={zone}:20260105T090000 RRULE:FREQ=WEEKLY", most=1) == ["01-05 14:00"]


def test_every_name_of_windows_has_a_zone_that_there_is() -> None:
    assert set(windows.ZONES.values()) <= zones.names()
    with pytest.raises(ExpressionError, match="it is a name of Windows"):
        Rule(expression="0 9 * * *", timezone="W. Europe Standard Time")


@pytest.mark.parametrize("fold", ["\r\n ", "\n ", "\n\t"])
def test_folded_lines_are_joined(fold: str) -> None:
    rule = f"DTSTART:20260105T090000\r\nRRULE:FREQ=WEEKLY;BY{fold}DAY=MO,T{fold}U\r\nEXDATE:2026{fold}0106T090000"
    assert days_of(rule, most=3) == ["01-05 09:00", "01-12 09:00", "01-13 09:00"]
    indented = "DTSTART:20260105T090000\n    RRULE:FREQ=WEEKLY\n    EXDATE:20260112T090000\n"
    assert days_of(indented, most=2) == ["01-05 09:00", "01-19 09:00"]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("DTSTART:20260105\nRRULE:FREQ=DAILY\nEXDATE:20260106T000000", "EXDATE has a time, but DTSTART is a date"),
        ("DTSTART:20260105T090000 RRULE:FREQ=DAILY EXDATE;TZID=Asia/Tokyo;VALUE=DATE:20260107", "leave out TZID"),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=400", "BYSETPOS: '400' is not a whole number"),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6", "BYSETPOS=6 picks nothing"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR: '24' is not a whole number"),
    ],
)
def test_what_would_have_no_effect_is_refused_and_the_part_is_named(rule: str, said: str) -> None:
    with pytest.raises(ExpressionError, match=said):
        days_of(rule)
