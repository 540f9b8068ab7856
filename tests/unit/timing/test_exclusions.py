"""Exclusions, holidays and business days."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quarterjack.extras import install_remedy
from quarterjack.timing import Rule, fires, holidays, next_fires, timetable
from quarterjack.timing.timetables import milliseconds

from tests.support.timing.expressions import ask, at, refused

BERLIN = "Europe/Berlin"
DAY = timedelta(days=1)

# 2026-12:  Mo 21  Tu 22  We 23  Th 24  Fr 25  Sa 26  Su 27  Mo 28


def dates(expression: str, after: str, count: int, **policies: Any) -> list[str]:
    return [
        f"{fire:%m-%d}" for fire in next_fires(expression, timezone=BERLIN, after=at(after), count=count, **policies)
    ]


class TestSkipping:
    def test_dates_and_ranges_are_left_out(self) -> None:
        assert dates("0 9 * * *", "2026-12-20", 4, exclude=["2026-12-21", "2026-12-23/2026-12-27"]) == [
            "12-20",
            "12-22",
            "12-28",
            "12-29",
        ]

    def test_touching_and_overlapping_ranges_are_one(self) -> None:
        exclude = ["2026-12-24/2026-12-25", "2026-12-26", "2026-12-22/2026-12-24", "2026-12-23"]
        assert dates("0 9 * * *", "2026-12-21", 2, exclude=exclude) == ["12-21", "12-27"]

    def test_an_excluded_day_is_the_day_on_the_wall_clock(self) -> None:
        assert ask("0 23 * * *", BERLIN, "2026-12-20T23:30", 2, exclude=["2026-12-21"]) == [
            "12-22T23:00+01:00",
            "12-23T23:00+01:00",
        ]
        assert ask("rate(1 hour)", BERLIN, "2026-12-20T22:30", 2, exclude=["2026-12-21"]) == [
            "12-22T00:30+01:00",
            "12-22T01:30+01:00",
        ]

    def test_weekends_are_left_out_by_name(self) -> None:
        assert dates("0 9 * * *", "2026-12-24", 3, exclude=["Weekends"]) == ["12-24", "12-25", "12-28"]

    def test_public_holidays_are_left_out(self) -> None:
        assert dates("0 9 * * *", "2026-12-24", 3, calendar="DE") == ["12-24", "12-27", "12-28"]
        assert dates("0 9 5-7 1 *", "2027-01-01", 3, calendar="DE") == ["01-05", "01-06", "01-07"]
        assert dates("0 9 5-7 1 *", "2027-01-01", 2, calendar="DE-BY") == [
            "01-05",
            "01-07",
        ]  # Epiphany, in Bavaria only

    def test_a_weekend_is_what_it_is_in_the_country_of_the_calendar(self) -> None:
        assert dates("0 9 * * *", "2026-11-25", 3, exclude=["weekends"], calendar="EG") == ["11-25", "11-26", "11-29"]

    def test_an_expression_for_whole_days_leaves_days_out(self) -> None:
        assert dates("0 9 * * *", "2026-12-23", 2, exclude=["* * 24-26 12 *"]) == ["12-23", "12-27"]
        assert dates("*/15 * * * * *", "2026-12-23T22:59:50", 1, exclude=["* * * 24-26 12 *"]) == ["12-27"]

    def test_an_expression_for_times_leaves_those_out(self) -> None:
        expected = ["12-21T11:30+01:00", "12-21T14:00+01:00"]
        assert ask("*/30 * * * *", BERLIN, "2026-12-21T10:00", 2, exclude=["* 12-13 * * *"]) == expected
        expected = ["12-21T00:00:01+01:00", "12-21T00:00:03+01:00"]
        assert ask("* * * * * *", BERLIN, "2026-12-20T23:00", 2, exclude=["*/2 * * * * *"]) == expected
        assert ask("* * * * * *", BERLIN, "2026-12-20T23:00", 1, exclude=["* 0-4 * * * *"]) == ["12-21T00:05+01:00"]

    def test_five_fields_exclude_whole_minutes(self) -> None:
        expected = ["12-21T09:01+01:00"]
        assert ask("*/10 * * * * *", BERLIN, "2026-12-21T08:00", 1, exclude=["0 9 * * *"]) == expected

    def test_long_excluded_stretches_are_jumped_over(self) -> None:
        assert ask("* * * * * *", BERLIN, "2026-12-21T07:00", 1, exclude=["* 8-22 * * *"]) == ["12-21T23:00+01:00"]
        assert ask("* * * * * *", BERLIN, "2026-12-21T07:00", 1, exclude=["2026-01-01/2060-01-01"]) == [
            "01-02T00:00+01:00"
        ]

    def test_an_aws_expression_excludes_too(self) -> None:
        assert dates("0 9 * * *", "2026-12-24", 2, exclude=["cron(* * ? * 1,7 *)"]) == ["12-24", "12-25"]

    def test_several_exclusions_add_up(self) -> None:
        policies = {"exclude": ["weekends", "2026-12-28"], "calendar": "DE"}
        assert dates("0 9 * * *", "2026-12-24", 3, **policies) == ["12-24", "12-29", "12-30"]

    # Europe/Berlin            UTC          wall clock
    #   2026-03-29   01:00        02:00 +01:00 → 03:00 +02:00
    #   2026-10-25   01:00        03:00 +02:00 → 02:00 +01:00

    def test_an_exclusion_is_what_the_clock_shows(self) -> None:
        expected = ["03-29T01:45+01:00", "03-29T03:30+02:00"]
        assert ask("*/15 * * * *", BERLIN, "2026-03-29T00:30", 2, exclude=["* 2 * * *", "0-29 3 * * *"]) == expected
        expected = ["10-25T01:30+02:00", "10-25T03:00+01:00"]
        assert ask("*/30 * * * *", BERLIN, "2026-10-24T23:00", 2, exclude=["* 2 * * *"]) == expected

    # America/St_Johns         UTC          wall clock
    #   2010-11-07   02:31        00:01:00 -02:30 → 23:01:00 -03:30 (November 6th)

    def test_the_day_before_comes_back_for_an_hour_and_is_excluded_again(self) -> None:
        zone, after = "America/St_Johns", "2010-11-07T02:20"
        expected = ["11-07T00:00-02:30", "11-07T00:15-03:30", "11-07T00:30-03:30"]
        assert ask("*/15 * * * *", zone, after, 3, exclude=["2010-11-06"])[0] == expected[0]
        assert "11-06" not in "".join(ask("*/15 * * * *", zone, after, 9, exclude=["2010-11-06"]))


class TestMoving:
    def test_a_fire_on_a_weekend_moves_to_the_next_business_day(self) -> None:
        assert dates("0 9 26 12 *", "2026-12-01", 1, on_excluded="next_business_day") == ["12-28"]
        assert dates("0 9 26 12 *", "2026-12-01", 1, on_excluded="previous_business_day") == ["12-25"]

    def test_holidays_are_not_business_days(self) -> None:
        assert dates("0 9 26 12 *", "2026-12-01", 1, on_excluded="previous_business_day", calendar="DE") == ["12-24"]
        assert dates("0 9 1 1 *", "2026-12-01", 1, on_excluded="next_business_day", calendar="DE") == ["01-04"]

    def test_the_last_business_day_of_each_month(self) -> None:
        found = dates("0 17 L * *", "2026-01-01", 6, on_excluded="previous_business_day", calendar="GB-ENG")
        assert found == ["01-30", "02-27", "03-31", "04-30", "05-29", "06-30"]

    def test_fires_that_meet_are_one(self) -> None:
        assert dates("0 9 * * *", "2026-12-25T12:00", 2, on_excluded="next_business_day") == ["12-28", "12-29"]
        assert dates("0 9 * * *", "2026-12-24T12:00", 2, on_excluded="previous_business_day") == ["12-25", "12-28"]

    def test_times_of_several_days_interleave(self) -> None:
        expected = ["12-28T09:00+01:00", "12-28T10:00+01:00", "12-28T11:00+01:00", "12-29T11:00+01:00"]
        expression = ["0 9 26 12 *", "0 10 27 12 *", "0 11 * * 1-5"]
        assert ask(expression, BERLIN, "2026-12-25T12:00", 4, on_excluded="next_business_day") == expected

    def test_asked_in_the_middle_of_a_day_what_is_moved_there_later_still_comes(self) -> None:
        expression = ["0 9 26 12 *", "0 15 27 12 *"]
        assert ask(expression, BERLIN, "2026-12-28T09:00", 1, on_excluded="next_business_day") == ["12-28T15:00+01:00"]

    def test_asked_on_a_day_off_the_next_business_day_comes(self) -> None:
        assert dates("0 9 * * *", "2026-12-26T12:00", 1, on_excluded="next_business_day") == ["12-28"]
        assert dates("0 9 * * *", "2026-12-26T12:00", 1, on_excluded="previous_business_day") == ["12-28"]

    def test_a_month_without_business_days_loses_its_fires(self) -> None:
        exclude = ["2026-12-01/2027-02-28"]
        expected = ["11-16", "03-01"]
        assert dates("0 9 15 * *", "2026-11-01", 2, exclude=exclude, on_excluded="next_business_day")[0] == expected[0]
        assert dates("0 9 15 * *", "2026-11-20", 1, exclude=exclude, on_excluded="next_business_day") == ["03-01"]
        assert dates("0 9 15 1 *", "2026-11-20", 1, exclude=exclude, on_excluded="next_business_day") == ["01-17"]
        assert dates("0 9 15 1 *", "2026-11-20", 1, exclude=exclude, on_excluded="previous_business_day") == ["01-14"]
        assert dates("0 9 15 12 *", "2026-11-20", 1, exclude=exclude, on_excluded="previous_business_day") == ["11-30"]

    def test_excluded_times_stay_excluded_after_the_move(self) -> None:
        policies = {"on_excluded": "next_business_day", "exclude": ["* 9 * * MON"]}
        assert ask("0 9,10 26 12 *", BERLIN, "2026-12-01", 1, **policies) == ["12-28T10:00+01:00"]

    def test_an_expression_that_ends_ends(self) -> None:
        assert dates("at(2026-12-26T09:00:00)", "2026-12-01", 3, on_excluded="next_business_day") == ["12-28"]
        assert dates("at(2026-12-26T09:00:00)", "2026-12-28T08:00", 3, on_excluded="next_business_day") == []

    def test_milliseconds_survive_the_move(self) -> None:
        rule = Rule(expression="rate(1 day)", on_excluded="next_business_day")
        anchor = milliseconds("after", datetime(2026, 12, 25, 9, 0, 0, 123_000, tzinfo=UTC))
        assert timetable(rule, anchor=anchor).next(anchor) == anchor + 3 * 86_400_000

    # Europe/Berlin            UTC          wall clock
    #   2021-03-28   01:00        02:00 +01:00 → 03:00 +02:00      (a Sunday, as always: made a business day below)
    #   2021-10-31   01:00        03:00 +02:00 → 02:00 +01:00

    def test_a_fire_moved_into_a_gap_follows_the_gap_policy(self) -> None:
        weekend = {"exclude": ["2021-03-28"], "on_excluded": "previous_business_day"}
        # it moves with the time that it would have had on its own day: 03:00
        assert ask("30 2 28 3 *", BERLIN, "2021-03-01", 1, **weekend) == ["03-26T03:00+01:00"]
        # Egypt's weekend is Friday and Saturday, so the Sunday of the change is a business day there
        moved = {"calendar": "EG", "on_excluded": "next_business_day"}
        assert ask("30 2 27 3 *", BERLIN, "2021-03-01", 1, **moved) == ["03-28T03:00+02:00"]
        assert ask("30 2 27 3 *", BERLIN, "2021-03-01", 1, gap="shift", **moved) == ["03-28T03:00+02:00"]
        assert ask("30 2 27 3 *", BERLIN, "2021-03-01", 1, gap="skip", **moved) != ["03-28T03:00+02:00"]
        assert ask("30 2 30 10 *", BERLIN, "2021-10-01", 1, **moved) == ["10-31T02:30+02:00"]

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(st.integers(0, 27), max_size=8, unique=True),
        st.sampled_from(["0 9 * * *", "30 8,17 */3 * *", "0 12 L * *", "15 6 * * 6,0", "0 0 1,15 * *"]),
        st.booleans(),
    )
    def test_moved_fires_are_those_of_a_walk(self, off: list[int], expression: str, forward: bool) -> None:
        begin, end = datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 8, 1, tzinfo=UTC)
        excluded = {begin + n * DAY for n in off}
        step = DAY if forward else -DAY

        def moved(fire: datetime) -> datetime:
            while fire.weekday() >= 5 or fire.replace(hour=0, minute=0) in excluded:
                fire += step
            return fire

        plain = timetable(Rule(expression=expression), anchor=0)
        base = [
            datetime.fromtimestamp(due / 1000, UTC)
            for due in fires(plain, ms_of(begin - 20 * DAY), ms_of(end + 20 * DAY))
        ]
        expected = sorted({moved(fire) for fire in base})
        rule = Rule(
            expression=expression,
            exclude=[f"{day:%Y-%m-%d}" for day in excluded],  # type: ignore[arg-type]
            on_excluded="next_business_day" if forward else "previous_business_day",
        )
        table = timetable(rule, anchor=0)
        found = [datetime.fromtimestamp(due / 1000, UTC) for due in fires(table, ms_of(begin), ms_of(end))]
        assert found == [fire for fire in expected if begin < fire <= end]


def ms_of(moment: datetime) -> int:
    return milliseconds("moment", moment)


class TestRefusals:
    @pytest.mark.parametrize(
        ("policies", "field", "problem"),
        [
            ({"exclude": "2026-12-24"}, "exclude", "not a list of texts"),
            ({"exclude": [7]}, "exclude", "not a list of texts"),
            ({"exclude": ["2026-02-30"]}, "exclude[0]", "no such date"),
            ({"exclude": ["2026-01-01", "2026-12-31/2026-12-24"]}, "exclude[1]", "runs backwards"),
            ({"exclude": ["9999-12-31"]}, "exclude[0]", "end of the calendar"),
            ({"exclude": ["61 * * * *"]}, "exclude[0]", "minute 61"),
            ({"exclude": ["H * * * *"]}, "exclude[0]", "H has no meaning"),
            ({"exclude": ["rate(1 day)"]}, "exclude[0]", "only cron expressions"),
            ({"exclude": ["FREQ=DAILY"]}, "exclude[0]", "only cron expressions"),
            ({"exclude": ["1," * 300 + "1 * * * *"]}, "exclude[0]", "longer than 512"),
            ({"exclude": ["2026-01-01"] * 201}, "exclude", "more than 200"),
            ({"exclude": ["0 1 * * *"] * 21}, "exclude", "more than 20 expressions"),
            ({"calendar": "ZZ"}, "calendar", "not a known calendar"),
            ({"calendar": "Germany"}, "calendar", "not a known calendar"),
            ({"calendar": "DE-QQ"}, "calendar", "no subdivision 'QQ'"),
            ({"calendar": "MC-01"}, "calendar", "no subdivision '01'"),
            ({"calendar": ""}, "calendar", "not a known calendar"),
            ({"calendar": 7}, "calendar", "not of type str"),
            ({"on_excluded": "later"}, "on_excluded", "not a known choice"),
        ],
    )
    def test_what_cannot_be_meant_is_refused(self, policies: dict[str, Any], field: str, problem: str) -> None:
        error = refused("0 9 * * *", **policies)
        assert error.field == field
        assert problem in error.problem

    def test_a_subdivision_that_is_unknown_is_answered_with_those_that_are_known(self) -> None:
        assert "DE-BY" in refused("0 9 * * *", calendar="DE-QQ").remedy
        assert "DE" in refused("0 9 * * *", calendar="DEX").remedy

    @pytest.mark.parametrize(
        "policies",
        [
            {"exclude": ["* * * * *"]},
            {"exclude": ["0 9 * * *"]},
            {"exclude": ["* 9 * * *"], "on_excluded": "next_business_day"},
            {"exclude": ["* * * * *"], "on_excluded": "next_business_day"},
            {"exclude": ["* * 9 * *", "* * */2 * *", "* * 2-30/2 * *"], "on_excluded": "previous_business_day"},
        ],
    )
    def test_excluding_everything_is_refused_in_bounded_time(self, policies: dict[str, Any]) -> None:
        assert "every fire for years to come is excluded" in refused("0 9 * * *", **policies).problem

    def test_a_yearly_fire_on_a_holiday_is_given_up_after_forty_years(self) -> None:
        assert "every fire" in refused("0 0 1 1 *", calendar="DE").problem

    def test_moves_that_never_arrive_are_given_up(self) -> None:
        exclude = [f"{year}-05-01/{year}-07-31" for year in range(2026, 2070)]
        assert "every fire" in refused("0 9 15 6 *", exclude=exclude, on_excluded="next_business_day").problem

    def test_without_the_package_the_refusal_says_how_to_install_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "holidays", None)
        holidays.calendar.cache_clear()
        assert refused("0 9 * * *", calendar="FR").remedy == install_remedy("calendars")
