"""Cron expressions: what they mean and how they are refused."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quarterjack.errors import ExpressionError
from quarterjack.timing import Rule, next_fires
from quarterjack.timing.cron.expression import NAMES

from tests.support.timing.expressions import ask, at, refused

START = "2026-01-01T00:00:30"  # a Thursday


def days(expression: str, count: int, after: str = "2026-01-01") -> list[str]:
    """The dates of the next fires."""
    return [f"{fire:%Y-%m-%d}" for fire in next_fires(expression, after=at(after), count=count)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * *", ["01-01T00:01", "01-01T00:02"]),
        ("5/15 * * * *", ["01-01T00:05", "01-01T00:20"]),
        ("5,10-12 * * * *", ["01-01T00:05", "01-01T00:10"]),
        ("0 */6 * * *", ["01-01T06:00", "01-01T12:00"]),
        ("0 0-10/5 * * *", ["01-01T05:00", "01-01T10:00"]),
        ("0 0 3-3 * *", ["01-03T00:00", "02-03T00:00"]),
        ("0 0 1 FEB,apr *", ["02-01T00:00", "04-01T00:00"]),
        ("0 0 1 jan-mar/2 *", ["03-01T00:00", "01-01T00:00"]),
        ("0 0 * * sun", ["01-04T00:00", "01-11T00:00"]),
        ("0 0 * * 0", ["01-04T00:00", "01-11T00:00"]),
        ("0 0 * * 7", ["01-04T00:00", "01-11T00:00"]),
        ("0 0 * * 7/7", ["01-04T00:00", "01-11T00:00"]),
        ("0 0 * * 5-7", ["01-02T00:00", "01-03T00:00"]),
        ("0 0 * * SAT-SUN", ["01-03T00:00", "01-04T00:00"]),
        ("0 0 * * SUN-MON", ["01-04T00:00", "01-05T00:00"]),
        ("0 0 * * 0-7", ["01-02T00:00", "01-03T00:00"]),
        ("0 0 * * 5/2", ["01-02T00:00", "01-09T00:00"]),
        ("0 0 ? * 1", ["01-05T00:00", "01-12T00:00"]),
        ("0 0 15 * ?", ["01-15T00:00", "02-15T00:00"]),
        ("0 0 ? * ?", ["01-02T00:00", "01-03T00:00"]),
        ("  0\t0  *  *\n* ", ["01-02T00:00", "01-03T00:00"]),
        ("*/60 * * * *", ["01-01T01:00", "01-01T02:00"]),
    ],
)
def test_five_fields(expression: str, expected: list[str]) -> None:
    assert ask(expression, "UTC", START, 2) == [text + "+00:00" for text in expected]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*/10 * * * * *", ["01-01T00:00:40", "01-01T00:00:50", "01-01T00:01"]),
        ("15 30 2 * * *", ["01-01T02:30:15", "01-02T02:30:15", "01-03T02:30:15"]),
        ("0,59 59 23 31 12 *", ["12-31T23:59", "12-31T23:59:59", "12-31T23:59"]),
    ],
)
def test_six_fields_begin_with_seconds(expression: str, expected: list[str]) -> None:
    assert ask(expression, "UTC", START, 3) == [text + "+00:00" for text in expected]


@pytest.mark.parametrize(("name", "same"), [*NAMES.items(), ("@DAILY", "0 0 * * *"), (" @hourly ", "0 * * * *")])
def test_names_stand_for_expressions(name: str, same: str) -> None:
    assert ask(name, "UTC", START, 3) == ask(same, "UTC", START, 3)


class TestDays:
    def test_either_day_field_is_enough_when_both_are_restricted(self) -> None:
        assert days("0 0 13 * 5", 4) == ["2026-01-02", "2026-01-09", "2026-01-13", "2026-01-16"]

    def test_both_must_match_when_one_begins_with_a_star(self) -> None:
        assert days("0 0 */2 * MON", 3) == ["2026-01-05", "2026-01-19", "2026-02-09"]
        assert days("0 0 13 * */5", 2) == ["2026-02-13", "2026-03-13"]  # Fridays and Sundays that are the 13th

    def test_the_last_day_and_days_before_it(self) -> None:
        assert days("0 0 L * *", 3) == ["2026-01-31", "2026-02-28", "2026-03-31"]
        assert days("0 0 L-3 * *", 2) == ["2026-01-28", "2026-02-25"]
        assert days("0 0 L-30 * *", 3, "2026-01-02") == ["2026-03-01", "2026-05-01", "2026-07-01"]
        assert days("0 0 1,L * *", 3) == ["2026-01-31", "2026-02-01", "2026-02-28"]

    def test_the_last_workday(self) -> None:
        assert days("0 0 LW * *", 4) == ["2026-01-30", "2026-02-27", "2026-03-31", "2026-04-30"]
        assert days("0 0 WL 5 *", 1) == ["2026-05-29"]

    def test_the_nearest_workday_never_leaves_its_month(self) -> None:
        assert days("0 0 15W * *", 3, "2026-02-01") == ["2026-02-16", "2026-03-16", "2026-04-15"]
        assert days("0 0 1W 8 *", 1) == ["2026-08-03"]  # the 1st is a Saturday: not July 31st
        assert days("0 0 31W 5 *", 1) == ["2026-05-29"]  # the 31st is a Sunday: not June 1st
        assert days("0 0 14W 2 *", 1) == ["2026-02-13"]
        assert days("0 0 31W * *", 2, "2026-02-01") == ["2026-03-31", "2026-05-29"]  # months without a 31st have none

    def test_numbered_and_last_weekdays(self) -> None:
        assert days("0 0 * * 5#3", 2) == ["2026-01-16", "2026-02-20"]
        assert days("0 0 * * fri#5", 2) == ["2026-01-30", "2026-05-29"]
        assert days("0 0 * * 5L", 2) == ["2026-01-30", "2026-02-27"]
        assert days("0 0 * * 7L", 1) == ["2026-01-25"]
        assert days("0 0 * * 1#1,FRIL", 3) == ["2026-01-05", "2026-01-30", "2026-02-02"]
        assert days("0 0 1 * 1#1", 3, "2026-01-02") == ["2026-01-05", "2026-02-01", "2026-02-02"]

    def test_a_leap_day_is_waited_for_across_a_century_that_has_none(self) -> None:
        assert days("0 0 29 2 *", 3, "2095-01-01") == ["2096-02-29", "2104-02-29", "2108-02-29"]
        assert days("0 0 29 2 */6", 1, "2076-03-01") == ["2088-02-29"]  # a Sunday or Saturday

    @settings(max_examples=60, deadline=None)
    @given(st.integers(1990, 2060), st.integers(1, 12), st.integers(1, 31), st.integers(0, 6), st.integers(1, 5))
    def test_special_days_are_those_of_the_calendar(
        self, year: int, month: int, day: int, weekday: int, which: int
    ) -> None:
        length = monthrange(year, month)[1]
        whole = [date(year, month, n) for n in range(1, length + 1)]
        named = [each for each in whole if each.isoweekday() % 7 == weekday]
        workdays = [each for each in whole if each.isoweekday() < 6]
        before = f"{year - 1:04}-12-31T23:59"

        def of_month(expression: str) -> list[str]:
            found = next_fires(expression, after=at(before), count=31)
            return [f"{fire:%d}" for fire in found if (fire.year, fire.month) == (year, month)]

        def expect(expression: str, dates: list[date]) -> None:
            try:
                assert of_month(expression) == [f"{each:%d}" for each in dates]
            except ValueError as error:
                assert not dates, error  # noqa: PT017 what never occurs is refused

        expect(f"0 0 {day}W {month} *", [nearest(workdays, date(year, month, day))] if day <= length else [])
        expect(f"0 0 LW {month} *", workdays[-1:])
        expect(f"0 0 L-{day - 1} {month} *", whole[-day:][:1] if day <= length else [])
        expect(f"0 0 * {month} {weekday}#{which}", named[which - 1 : which])
        expect(f"0 0 * {month} {weekday}L", named[-1:])


def nearest(workdays: list[date], day: date) -> date:
    """The workday nearest to a day: the Friday before a Saturday, the Monday after a Sunday, where the month has them."""
    return min(workdays, key=lambda each: (abs(each - day), each > day if day.isoweekday() == 6 else each < day))


class TestAws:
    def test_a_week_begins_with_sunday_as_1(self) -> None:
        assert days("cron(0 12 ? * 1 *)", 1) == ["2026-01-04"]
        assert days("cron(0 12 ? * 2-6 *)", 2) == ["2026-01-01", "2026-01-02"]
        assert days("cron(0 12 ? * SUN *)", 1) == ["2026-01-04"]
        assert days("cron(0 12 ? * L *)", 1) == ["2026-01-03"]
        assert days("cron(0 12 ? * 6L *)", 1) == ["2026-01-30"]
        assert days("cron(0 12 ? * 6#3 *)", 1) == ["2026-01-16"]

    def test_the_year_is_the_last_field(self) -> None:
        assert days("cron(0 12 1 1 ? 2027-2028)", 5) == ["2027-01-01", "2028-01-01"]
        assert days("cron(0 12 1 1 ? 2027,2030/10)", 3) == ["2027-01-01", "2030-01-01", "2040-01-01"]
        assert days("cron(0 12 1 1 ? 2020)", 3) == []

    def test_what_eventbridge_documents_works(self) -> None:
        assert ask("cron(15 10 ? * 6L 2026-2027)", "UTC", START, 1) == ["01-30T10:15+00:00"]
        assert ask("cron(0/10 * ? * MON-FRI *)", "UTC", START, 1) == ["01-01T00:10+00:00"]
        assert ask(" CRON( 0 8 1 * ? * ) ", "UTC", START, 1) == ["01-01T08:00+00:00"]
        assert ask("cron(0 18 3W * ? *)", "UTC", START, 1) == ["01-02T18:00+00:00"]
        assert ask("cron(0 18 LW * ? *)", "UTC", START, 1) == ["01-30T18:00+00:00"]

    @pytest.mark.parametrize(
        ("expression", "position", "problem"),
        [
            ("cron(0 12 * * * *)", 14, "exactly one of the two day fields is '?'"),
            ("cron(0 12 ? * ? *)", 14, "exactly one of the two day fields is '?'"),
            ("cron(0 12 * * ?)", 0, "6 fields, not 5"),
            ("cron()", 0, "6 fields, not 0"),
            ("cron(0 12 ? * 0 *)", 14, "day-of-week 0 is outside 1-7"),
            ("cron(0 12 ? * FRI-MON *)", 14, "runs backwards"),
            ("cron(0 12 1 1 ? 1969)", 16, "year 1969 is outside 1970-2199"),
            ("cron(0 12 29 2 ? 2027)", 10, "no day of these years"),
        ],
    )
    def test_refusals_name_the_place(self, expression: str, position: int, problem: str) -> None:
        error = refused(expression)
        assert error.position == position
        assert problem in error.problem


class TestHash:
    def test_the_same_identity_gives_the_same_times_and_another_gives_others(self) -> None:
        times = {ask("H H * * *", "UTC", START, 1, key=f"acme/job-{n}")[0] for n in range(50)}
        assert len(times) > 40
        assert ask("H H * * *", "UTC", START, 2, key="k") == ask("H H * * *", "UTC", START, 2, key="k")

    def test_a_thousand_hourly_jobs_spread_evenly(self) -> None:
        minutes = [next_fires("H * * * *", after=at(START), count=1, key=f"acme/{n}")[0].minute for n in range(1000)]
        assert max(minutes.count(minute) for minute in range(60)) < 35  # 16.7 on average

    def test_ranges_and_steps_hash_within_their_bounds(self) -> None:
        for n in range(30):
            (fire,) = next_fires("H(10-12) H(3-4) * * *", after=at(START), count=1, key=str(n))
            assert 10 <= fire.minute <= 12
            assert 3 <= fire.hour <= 4
            first, second, *_ = next_fires("H/15 * * * *", after=at(START), count=5, key=str(n))
            assert second - first == timedelta(minutes=15)
            (fire,) = next_fires("0 0 H * *", after=at(START), count=1, key=str(n))
            assert fire.day <= 28
            assert next_fires("H(0-29)/10 * * * *", after=at(START), count=1, key=str(n))[0].minute < 30

    def test_the_times_are_frozen(self) -> None:
        """Another hash would move every such schedule that runs."""
        assert ask("H H H * *", "UTC", START, 1, key="acme/nightly") == ["01-07T09:12+00:00"]

    def test_without_an_identity_it_is_refused_but_a_rule_may_be_written(self) -> None:
        error = refused("H * * * *")
        assert "identity" in error.problem
        assert "key=" in error.remedy
        assert Rule(expression="H H * * *").expression == "H H * * *"

    def test_a_hashed_time_is_a_fixed_time(self) -> None:
        assert len(ask("30 H(2-2) * * *", "Europe/Berlin", "2026-10-24T23:00", 1, key="k")) == 1
        assert ask("30 H(2-2) * * *", "Europe/Berlin", "2026-10-25T00:45", 1, key="k") == ["10-26T02:30+01:00"]


@pytest.mark.parametrize(
    ("expression", "position", "problem", "remedy"),
    [
        ("", 0, "5 fields, or 6 with seconds first, not 0", "minute hour"),
        ("* * * *", 0, "not 4", "minute hour"),
        ("* * * * * * *", 0, "not 7", "leave out the year: '* * * * * *'"),
        ("@fortnightly", 0, "'@fortnightly' is not a known name", "@weekly"),
        (" @reboot", 1, "'@reboot' is not a known name", "@daily"),
        ("60 * * * *", 0, "minute 60 is outside 0-59", "did you mean 0?"),
        ("* 24 * * *", 2, "hour 24 is outside 0-23", "did you mean 0?"),
        ("* * 0 * *", 4, "day-of-month 0 is outside 1-31", "did you mean 1?"),
        ("* * * 13 *", 6, "month 13 is outside 1-12", "did you mean 12?"),
        ("* * * * 8", 8, "day-of-week 8 is outside 0-6", "did you mean 6?"),
        ("5,5,99 * * * *", 4, "minute 99 is outside 0-59", "did you mean 59?"),
        ("30-10 * * * *", 0, "minute range 30-10 runs backwards", "30-59,0-10"),
        ("* * * * 5-1", 8, "day-of-week range 5-1 runs backwards", "5-6,0-1"),
        ("*/0 * * * *", 0, "step '0' in minute is not a number above zero", "1 to 60"),
        ("*/x * * * *", 0, "step 'X' in minute", "1 to 60"),
        ("*/90 * * * *", 0, "step 90 is longer than the field minute", "rate(90 minutes)"),
        ("* * * * */8", 8, "step 8 is longer than the field day-of-week", "rate(8 days)"),
        ("1,,2 * * * *", 2, "minute '' is not understood", "0-59"),
        ("-5 * * * *", 0, "'-5' is not understood", "0-59"),
        ("1.5 * * * *", 0, "'1.5' is not understood", "0-59"),
        ("**/2 * * * *", 0, "is not understood", "0-59"),
        ("MON * * * *", 0, "minute 'MON' is not understood", "0-59"),
        ("* * * MAI *", 6, "month 'MAI' is not understood", "JAN-DEC"),
        ("* * * * MONDAY", 8, "day-of-week 'MONDAY' is not understood", "SUN-SAT"),
        ("? * * * *", 0, "'?' in the field minute", "write '*'"),
        ("* * ?/2 * *", 4, "'?' stands alone in its field", "write '*/2'"),
        ("* * * * ?/2", 8, "'?' stands alone in its field", "write '*/2'"),
        ("* * 1,?,15 * *", 6, "'?' stands alone in its field", "the list without '?'"),
        ("* * * * ?,MON", 8, "'?' stands alone in its field", "write '*' for every day"),
        ("* * L,? * *", 6, "'?' stands alone in its field", "the list without '?'"),
        ("* * * * ?,?/3", 8, "'?' stands alone in its field", "the list without '?'"),
        ("0 * * ?/2 * *", 6, "'?' stands alone in its field", "write '*/2'"),
        ("cron(0 9 ?/2 * ? *)", 9, "'?' stands alone in its field", "write '*/2'"),
        ("12345 * * * *", 0, "minute '12345' is not understood", "0-59"),
        ("H(5-1) * * * *", 0, "runs backwards", "split"),
        ("H(1) * * * *", 0, "is not understood", "0-59"),
        ("* * L-31 * *", 4, "31 days before its last", "L-1 to L-30"),
        ("* * 32W * *", 4, "day-of-month 32 is outside 1-31", "did you mean 31?"),
        ("* * 5L * *", 4, "'5L' is not understood", "1-31"),
        ("* * W * *", 4, "day-of-month 'W' is not understood", "1-31"),
        ("* * * * L", 8, "'L' alone is not a day of the week", "FRIL"),
        ("* * * * 5#0", 8, "weekday number 0", "#1 to #5"),
        ("* * * * 5#6", 8, "weekday number 6", "#1 to #5"),
        ("* * * * 9#1", 8, "day-of-week 9 is outside", "did you mean 6?"),
        ("* * * * 5W", 8, "is not understood", "SUN-SAT"),
        ("0 0 0 ? * L-3", 10, "day-of-week 'L' in 'L-3' is not understood", "SUN-SAT"),
        ("0 0 LW-1 * *", 4, "day-of-month 'LW' in 'LW-1' is not understood", "1-31"),
        ("0 0 31 4 *", 4, "day-of-month 31 never occurs in month 4", "did you mean 30?"),
        ("0 0 30,31 2 *", 4, "day-of-month 30 never occurs in month 2", "did you mean 29?"),
        ("0 0 31 2,4,6 *", 4, "day-of-month 31 never occurs in month 2,4,6", "did you mean 30?"),
        ("0 0 31 4 */2", 4, "never occurs", "did you mean 30?"),
        ("0 0 L-29 2 *", 4, "L-29 with this day-of-week never occurs in month 2", "together"),
        ("0 0 30W 2 *", 4, "never occurs in month 2", "together"),
        ("0 0 */31 * 1#2", 4, "never occurs", "together"),
        ("0 9 * * 1–5", 9, "the character '–'", "ASCII"),
        ("٣ * * * *", 0, "the character", "ASCII"),
        ("* * * * * " + "1," * 300, None, "longer than 512 characters", "split"),
    ],
)
def test_refusals_name_the_place_the_problem_and_the_remedy(
    expression: str, position: int | None, problem: str, remedy: str
) -> None:
    error = refused(expression)
    assert error.field == "expression"
    assert error.position == position
    assert problem in error.problem
    assert remedy in error.remedy


def test_a_day_that_some_months_lack_is_fine() -> None:
    assert days("0 0 31 4,5 *", 1) == ["2026-05-31"]
    assert days("0 0 31 4 1", 1) == ["2026-04-06"]


def test_the_error_is_a_value_error_that_shows_the_expression() -> None:
    error = refused("0 0 31 4 *")
    assert isinstance(error, ValueError)
    assert str(error) == "expression='0 0 31 4 *': day-of-month 31 never occurs in month 4; did you mean 30?"


def test_a_pattern_forgets_old_months_instead_of_growing() -> None:
    assert len(days("0 0 29 2 *", 250, "1000-01-01")) == 250


@pytest.mark.parametrize(
    ("expression", "remedy"),
    [
        ("0 0 9 ? * MON-FRI 2026", "write cron(0 9 ? * MON-FRI 2026)"),
        ("0 0 12 * * ? 2026", "write cron(0 12 * * ? 2026)"),
        ("0 0 12 1 * * *", "write cron(0 12 1 * ? *)"),
        ("0 0 9 ? * 2-6 2026", "write cron(0 9 ? * 2-6 2026)"),
        ("*/5 0 12 1 * ? *", "leave out the year: '*/5 0 12 1 * ?'"),
        ("5 0 12 1 * ? 2026", "give start= and end= for it"),
        ("0 0 99 1 * ? 2026", "write cron(minute hour"),
        ("0 0 9 ? * 2-6", "write MON-FRI if it is Quartz's, else TUE-SAT"),
        ("0 0 9 ? * 2#1", "write MON#1 if it is Quartz's, else TUE#1"),
        ("0 0 9 ? * 1,7", "write SUN,SAT if it is Quartz's, else MON,SUN"),
        ("0 15 10 ? * 6L", "write FRIL if it is Quartz's, else SATL"),
        ("0 15 10 ? * 2L,6", "write MONL,FRI if it is Quartz's, else TUEL,SAT"),
        ("CRON_TZ=America/New_York 0 9 * * *", "give the expression '0 9 * * *' and timezone='America/New_York'"),
        ("TZ=Europe/Berlin @daily", "give the expression '@daily' and timezone='Europe/Berlin'"),
        ("0 9 * * * Europe/Berlin", "give the expression '0 9 * * *' and timezone='Europe/Berlin'"),
        ("0 0 9 * * MON-FRI UTC", "give the expression '0 0 9 * * MON-FRI' and timezone='UTC'"),
        ("@every 1h30m", "write rate(90 minutes)"),
        ("@every 90s", "write rate(90 seconds)"),
        ("@every 24h", "write rate(1 day)"),
        ("@every 1d12h", "write rate(36 hours)"),
        ("@every 2 days", "write a rate, as rate(90 minutes)"),
        ("@every 300ms", "write a rate, as rate(90 minutes)"),
        ("@midnight Europe/Rome", "give the expression '@midnight' and timezone='Europe/Rome'"),
        ("cron(0 9 * * ? *) Europe/Rome", "give the expression 'cron(0 9 * * ? *)' and timezone='Europe/Rome'"),
        ("0 0 * * 7/2", "write 0/2 to count from Sunday on, or 7 for Sunday alone"),
        ("0 0 * * L5", "did you mean 5L?"),
        ("0 0 * * LFRI", "did you mean FRIL?"),
    ],
)
def test_forms_of_other_systems_are_refused_with_ours(expression: str, remedy: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Rule(expression=expression)
    assert remedy in caught.value.remedy
    assert caught.value.value == expression


@pytest.mark.parametrize(
    "expression", ["0 0 9 ? * MON-FRI", "0 0 9 ? * MON#1", "0 0 9 * * 2-6", "0 9 ? * 2-6", "0 0 9 1 * ?"]
)
def test_what_is_read_alike_is_not_refused(expression: str) -> None:
    Rule(expression=expression)
