"""What a change of the clocks does to a fire. Above each test stands the change that it is about."""

from __future__ import annotations

import pytest
from quarterjack.timing import Rule, fires, timetable

from tests.support.timing.expressions import ask, ms

# Europe/Berlin            UTC          wall clock
#   2026-03-29   00:59:59     01:59:59 +01:00
#                01:00:00     03:00:00 +02:00      02:00 to 03:00 is skipped


def test_a_fixed_time_in_a_gap_fires_once_at_the_first_valid_instant() -> None:
    assert ask("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00") == [
        "03-28T02:30+01:00",
        "03-29T03:00+02:00",
        "03-30T02:30+02:00",
    ]


def test_several_fixed_times_in_one_gap_are_one_fire() -> None:
    assert ask("0,15,30 2 * * *", "Europe/Berlin", "2026-03-29T00:00", 2) == ["03-29T03:00+02:00", "03-30T02:00+02:00"]


def test_a_fixed_time_in_a_gap_merges_with_one_right_after_it() -> None:
    assert ask("0 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00", 2) == ["03-29T03:00+02:00", "03-30T02:00+02:00"]


def test_a_fixed_time_is_not_missed_when_asked_a_millisecond_before_the_change() -> None:
    table = timetable(Rule(expression="30 2 * * *", timezone="Europe/Berlin"), anchor=0)
    change = ms("2026-03-29T01:00")
    assert table.next(change - 1) == change
    assert table.next(change) == ms("2026-03-30T00:30")


def test_a_wildcard_invents_nothing_after_a_gap() -> None:
    assert ask("*/30 2 * * *", "Europe/Berlin", "2026-03-28T01:00", 3) == [
        "03-28T02:30+01:00",
        "03-30T02:00+02:00",
        "03-30T02:30+02:00",
    ]


def test_an_hourly_wildcard_goes_straight_on_over_a_gap() -> None:
    assert ask("0 * * * *", "Europe/Berlin", "2026-03-28T23:30", 3) == [
        "03-29T01:00+01:00",
        "03-29T03:00+02:00",
        "03-29T04:00+02:00",
    ]


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        ("next_valid", ["03-29T03:00+02:00", "03-30T02:30+02:00"]),
        ("skip", ["03-30T02:30+02:00", "03-31T02:30+02:00"]),
        ("shift", ["03-29T03:30+02:00", "03-30T02:30+02:00"]),
    ],
)
def test_the_gap_policy_decides_about_a_skipped_time(gap: str, expected: list[str]) -> None:
    assert ask("30 2 * * *", "Europe/Berlin", "2026-03-29T00:00", 2, gap=gap) == expected


def test_the_gap_policy_overrides_a_wildcard_too() -> None:
    assert ask("*/20 2 * * *", "Europe/Berlin", "2026-03-29T00:00", 2, gap="next_valid") == [
        "03-29T03:00+02:00",
        "03-30T02:00+02:00",
    ]
    assert ask("*/20 2 * * *", "Europe/Berlin", "2026-03-29T00:00", 4, gap="shift") == [
        "03-29T03:00+02:00",
        "03-29T03:20+02:00",
        "03-29T03:40+02:00",
        "03-30T02:00+02:00",
    ]


def test_shifted_fires_merge_with_those_that_are_due_anyway() -> None:
    assert ask("0,30 2,3 * * *", "Europe/Berlin", "2026-03-29T01:00", 2, gap="shift") == [
        "03-29T03:30+02:00",
        "03-30T02:00+02:00",
    ]


def test_the_aws_dialect_skips_a_gap_unless_told_otherwise() -> None:
    assert ask("cron(30 2 * * ? *)", "Europe/Berlin", "2026-03-29T00:00", 1) == ["03-30T02:30+02:00"]
    assert ask("cron(30 2 * * ? *)", "Europe/Berlin", "2026-03-29T00:00", 1, gap="next_valid") == ["03-29T03:00+02:00"]


# Europe/Berlin            UTC          wall clock
#   2026-10-25   00:59:59     02:59:59 +02:00
#                01:00:00     02:00:00 +01:00      02:00 to 03:00 comes twice


def test_a_fixed_time_in_a_repeated_hour_fires_on_its_first_occurrence_only() -> None:
    assert ask("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 2) == ["10-25T02:30+02:00", "10-26T02:30+01:00"]


def test_asked_from_within_the_second_occurrence_a_fixed_time_is_over_for_the_day() -> None:
    for asked in ("2026-10-25T01:00", "2026-10-25T01:10", "2026-10-25T01:29:59.999"):
        assert ask("30 2 * * *", "Europe/Berlin", asked, 1) == ["10-26T02:30+01:00"]


def test_a_wildcard_fires_in_both_passes_of_a_repeated_hour() -> None:
    assert ask("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:59", 5) == [
        "10-25T02:00+02:00",
        "10-25T02:30+02:00",
        "10-25T02:00+01:00",
        "10-25T02:30+01:00",
        "10-25T03:00+01:00",
    ]


@pytest.mark.parametrize(
    ("repeated", "expected"),
    [
        ("first", ["10-25T02:30+02:00", "10-26T02:30+01:00"]),
        ("second", ["10-25T02:30+01:00", "10-26T02:30+01:00"]),
        ("both", ["10-25T02:30+02:00", "10-25T02:30+01:00", "10-26T02:30+01:00"]),
    ],
)
def test_the_policy_for_repeated_times_decides_which_pass_counts(repeated: str, expected: list[str]) -> None:
    count = len(expected)
    assert ask("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", count, repeated=repeated) == expected


def test_a_wildcard_told_to_fire_in_one_pass_stalls_in_the_other() -> None:
    expected = ["10-25T02:00+02:00", "10-25T02:30+02:00", "10-25T03:00+01:00"]
    assert ask("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:59", 3, repeated="first") == expected
    expected = ["10-25T02:00+01:00", "10-25T02:30+01:00", "10-25T03:00+01:00"]
    assert ask("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:59", 3, repeated="second") == expected


def test_a_rare_wildcard_is_found_in_the_second_pass_after_its_first() -> None:
    assert ask("*/30 2 25 10 *", "Europe/Berlin", "2026-10-25T00:45", 3) == [
        "10-25T02:00+01:00",
        "10-25T02:30+01:00",
        "10-25T02:00+02:00",
    ]


# Australia/Lord_Howe      UTC          wall clock
#   2026-10-03   15:29:59     01:59:59 +10:30
#                15:30:00     02:30:00 +11:00      half an hour is skipped (October 4th there)
#   2026-04-04   14:59:59     01:59:59 +11:00
#                15:00:00     01:30:00 +10:30      half an hour comes twice (April 5th there)


def test_half_an_hour_is_skipped_and_repeated_on_lord_howe() -> None:
    assert ask("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00", 2) == ["10-04T02:30+11:00", "10-05T02:15+11:00"]
    assert ask("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00", 2) == ["04-05T01:45+11:00", "04-06T01:45+10:30"]
    assert ask("*/15 1 5 4 *", "Australia/Lord_Howe", "2026-04-04T14:20", 4) == [
        "04-05T01:30+11:00",
        "04-05T01:45+11:00",
        "04-05T01:30+10:30",
        "04-05T01:45+10:30",
    ]


# Antarctica/Troll         UTC          wall clock
#   2026-03-29   00:59:59     00:59:59 +00:00
#                01:00:00     03:00:00 +02:00      two hours are skipped
#   2026-10-25   00:59:59     02:59:59 +02:00
#                01:00:00     01:00:00 +00:00      two hours come twice


def test_two_hours_are_skipped_and_repeated_at_troll() -> None:
    assert ask("0 1,2 * * *", "Antarctica/Troll", "2026-03-28T12:00", 2) == ["03-29T03:00+02:00", "03-30T01:00+02:00"]
    assert ask("0 1,2 * * *", "Antarctica/Troll", "2026-03-28T12:00", 2, gap="shift") == [
        "03-29T03:00+02:00",
        "03-29T04:00+02:00",
    ]
    assert ask("0 1,2 * * *", "Antarctica/Troll", "2026-10-24T12:00", 3) == [
        "10-25T01:00+02:00",
        "10-25T02:00+02:00",
        "10-26T01:00+00:00",
    ]
    assert ask("0 * 25 10 *", "Antarctica/Troll", "2026-10-24T22:30", 5) == [
        "10-25T01:00+02:00",
        "10-25T02:00+02:00",
        "10-25T01:00+00:00",
        "10-25T02:00+00:00",
        "10-25T03:00+00:00",
    ]


# America/Havana           UTC          wall clock
#   2025-03-09   04:59:59     23:59:59 -05:00
#                05:00:00     01:00:00 -04:00      the first hour of the day is skipped
#   2025-11-02   04:59:59     00:59:59 -04:00
#                05:00:00     00:00:00 -05:00      the first hour of the day comes twice


def test_midnight_is_skipped_and_repeated_in_havana() -> None:
    assert ask("@daily", "America/Havana", "2025-03-08T12:00", 2) == ["03-09T01:00-04:00", "03-10T00:00-04:00"]
    assert ask("@daily", "America/Havana", "2025-11-01T12:00", 2) == ["11-02T00:00-04:00", "11-03T00:00-05:00"]
    assert ask("@daily", "America/Havana", "2025-11-02T04:30", 1) == ["11-03T00:00-05:00"]


# Asia/Beirut              UTC          wall clock
#   2025-03-29   21:59:59     23:59:59 +02:00
#                22:00:00     01:00:00 +03:00      midnight of March 30th is skipped
#   2025-10-25   20:59:59     23:59:59 +03:00
#                21:00:00     23:00:00 +02:00      the last hour of the 25th comes twice


def test_midnight_is_skipped_and_the_hour_before_it_repeated_in_beirut() -> None:
    assert ask("0 0 30 3 *", "Asia/Beirut", "2025-03-01T00:00", 1) == ["03-30T01:00+03:00"]
    assert ask("0 0 30 3 *", "Asia/Beirut", "2025-03-01T00:00", 1, gap="skip") == ["03-30T00:00+03:00"]
    assert ask("30 23 * * *", "Asia/Beirut", "2025-10-25T12:00", 2) == ["10-25T23:30+03:00", "10-26T23:30+02:00"]
    assert ask("0 0 * * *", "Asia/Beirut", "2025-10-25T12:00", 1) == ["10-26T00:00+02:00"]


# Pacific/Apia             UTC          wall clock
#   2011-12-30   09:59:59     2011-12-29 23:59:59 -10:00
#                10:00:00     2011-12-31 00:00:00 +14:00      December 30th is skipped


def test_a_whole_day_is_skipped_in_apia() -> None:
    assert ask("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00", 3) == [
        "12-29T12:00-10:00",
        "12-31T00:00+14:00",
        "12-31T12:00+14:00",
    ]
    assert ask("0 */6 * * *", "Pacific/Apia", "2011-12-30T04:00", 2) == ["12-31T00:00+14:00", "12-31T06:00+14:00"]
    assert ask("at(2011-12-30T08:00:00)", "Pacific/Apia", "2011-12-01T00:00", 2) == ["12-31T00:00+14:00"]
    assert ask("0 12 * * *", "Pacific/Apia", "2011-12-30T00:00", 2, gap="shift") == [
        "12-31T12:00+14:00",
        "01-01T12:00+14:00",
    ]


# Africa/Monrovia          UTC          wall clock
#   1972-01-07   00:44:29     1972-01-06 23:59:59 -00:44:30
#                00:44:30     1972-01-07 00:44:30 +00:00      44 and a half minutes are skipped


def test_historic_offsets_of_seconds_are_right() -> None:
    assert ask("15 0 * * *", "Africa/Monrovia", "1972-01-05T12:00") == [
        "01-06T00:15-00:44:30",
        "01-07T00:44:30+00:00",
        "01-08T00:15+00:00",
    ]
    assert ask("0 0,1 * * *", "Africa/Monrovia", "1972-01-06T12:00") == [
        "01-07T00:44:30+00:00",
        "01-07T01:00+00:00",
        "01-08T00:00+00:00",
    ]


# America/Juneau           UTC                     wall clock
#   1867-10-18   1867-10-19 00:31:12     1867-10-19 15:33:31 +15:02:19
#                1867-10-19 00:31:13     1867-10-18 15:33:32 -08:57:41      a day came twice when Alaska changed hands


def test_a_repeated_day_counts_once_for_a_fixed_time_and_twice_for_a_wildcard() -> None:
    fixed, starred = (Rule(expression=text, timezone="America/Juneau") for text in ("0 17 18 10 *", "0 */17 18 10 *"))
    between = ms("1867-10-18T00:00"), ms("1867-10-20")
    assert list(fires(timetable(fixed, anchor=0), *between)) == [ms("1867-10-18T01:57:41")]
    assert list(fires(timetable(starred, anchor=0), *between)) == [ms("1867-10-18T01:57:41"), ms("1867-10-19T01:57:41")]


def test_at_follows_the_rule_for_fixed_times() -> None:
    assert ask("at(2026-03-29T02:30:00)", "Europe/Berlin", "2026-01-01") == ["03-29T03:00+02:00"]
    assert ask("at(2026-10-25T02:30:00)", "Europe/Berlin", "2026-01-01") == ["10-25T02:30+02:00"]
    assert ask("at(2026-10-25T02:30:00)", "Europe/Berlin", "2026-10-25T01:00") == []
    assert ask("at(2026-03-29T02:30:00)", "Europe/Berlin", "2026-01-01", gap="shift") == ["03-29T03:30+02:00"]
    assert ask("at(2026-03-29T02:30:00)", "Europe/Berlin", "2026-01-01", gap="skip") == []
    assert ask("at(2026-10-25T02:30:00)", "Europe/Berlin", "2026-01-01", repeated="both") == [
        "10-25T02:30+02:00",
        "10-25T02:30+01:00",
    ]


def test_a_day_of_a_rate_is_24_hours_whatever_the_clocks_do() -> None:
    assert ask("rate(1 day)", "Europe/Berlin", "2026-03-28T01:30", 2) == ["03-29T03:30+02:00", "03-30T03:30+02:00"]


def test_the_clocks_of_the_distant_future_still_change() -> None:
    assert ask("30 2 * * *", "Europe/Berlin", "2150-03-28T12:00", 1) == ["03-29T03:00+02:00"]


def test_asked_outside_of_all_dates_there_is_nothing_or_the_first() -> None:
    table = timetable(Rule(expression="0 0 * * *", timezone="Europe/Berlin"), anchor=0)
    assert table.next(10**16) is None
    first = table.next(-(10**16))
    assert first is not None
    assert first < ms("0001-02-01")
