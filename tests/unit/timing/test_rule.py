"""A rule as data, its bounds, and what is stored of it."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from croniter import croniter
from quarterjack.errors import ExpressionError, InvalidInput
from quarterjack.timing import Rule, fires, from_json, next_fires, pin, timetable

from tests.support.timing.expressions import ask, at, ms, refused

FULL = {
    "expression": "0 9 * * 1-5",
    "timezone": "Europe/Berlin",
    "also": ["@hourly", "rate(90 seconds)"],
    "gap": "skip",
    "repeated": "both",
    "exclude": ["2026-12-24", "weekends"],
    "calendar": "DE-BY",
    "on_excluded": "next_business_day",
    "start": ms("2026-01-01"),
    "end": ms("2027-01-01T12:00:00"),
    "max_fires": 10,
    "jitter": 60,
    "seed": "abc",
    "last": ms("2026-02-01"),
    "decided": ms("2026-01-15T09:30"),
    "pending": [[ms("2026-01-15T09:00"), ms("2026-01-15T09:40")]],
}


class TestAsData:
    def test_defaults_are_left_out(self) -> None:
        assert Rule(expression="* * * * *").as_dict() == {"expression": "* * * * *"}
        assert Rule(expression="* * * * *", timezone="UTC", also=(), window=0).as_dict() == {"expression": "* * * * *"}

    def test_everything_survives_json(self) -> None:
        rule = Rule.from_dict(FULL)
        assert rule.as_dict() == FULL
        assert Rule.from_dict(json.loads(json.dumps(rule.as_dict()))) == rule
        assert rule.start == datetime(2026, 1, 1, tzinfo=UTC)

    def test_the_same_json_is_read_once(self) -> None:
        text = json.dumps(FULL)
        assert from_json(text) is from_json(text)
        assert from_json(text) == Rule.from_dict(FULL)

    def test_a_rule_can_be_copied_pickled_compared_and_hashed(self) -> None:
        rule = Rule.from_dict(FULL)
        assert pickle.loads(pickle.dumps(rule)) == copy.deepcopy(rule) == rule
        assert hash(copy.copy(rule)) == hash(rule)
        assert dataclasses.replace(rule, window=0) == rule
        assert "plan" not in repr(rule)

    @pytest.mark.parametrize(
        ("values", "problem"),
        [
            ({"expression": "* * * * *", "cadence": 1}, "no rule has ['cadence']"),
            ({"timezone": "UTC"}, "there is no expression"),
            ({"expression": "* * * * *", "start": "2026-01-01"}, "not an instant"),
            ({"expression": "* * * * *", "end": 10**20}, "not an instant"),
            ({"expression": "* * * * *", "plan": 1}, "no rule has ['plan']"),
        ],
    )
    def test_what_no_rule_holds_is_refused(self, values: dict[str, Any], problem: str) -> None:
        with pytest.raises(ExpressionError) as caught:
            Rule.from_dict(values)
        assert problem in caught.value.problem

    @pytest.mark.parametrize(
        ("policies", "field"),
        [
            ({"timezone": "Berlin"}, "timezone"),
            ({"gap": "fill"}, "gap"),
            ({"repeated": "never"}, "repeated"),
            ({"also": ["* * *"]}, "also[0]"),
            ({"also": ["* * * * *", "rate(0 days)"]}, "also[1]"),
            ({"also": "* * * * *"}, "also"),
            ({"also": ["* * * * *"] * 20}, "also"),
            ({"start": datetime(2026, 1, 1)}, "start"),  # noqa: DTZ001 naive on purpose
            ({"end": "tomorrow"}, "end"),
            ({"start": at("2026-02-01"), "end": at("2026-01-01")}, "end"),
            ({"max_fires": 0}, "max_fires"),
            ({"max_fires": 1001}, "max_fires"),
            ({"max_fires": True}, "max_fires"),
            ({"window": -1}, "window"),
            ({"window": 86_401}, "window"),
            ({"window": 1.5}, "window"),
            ({"jitter": "1"}, "jitter"),
            ({"window": 5, "jitter": 5}, "jitter"),
            ({"seed": 5}, "seed"),
            ({"last": "5"}, "last"),
            ({"decided": "5"}, "decided"),
            ({"pending": [[5]]}, "pending"),
        ],
    )
    def test_a_policy_that_cannot_be_meant_is_refused(self, policies: dict[str, Any], field: str) -> None:
        with pytest.raises(ExpressionError) as caught:
            Rule(expression="* * * * *", **policies)
        assert caught.value.field == field

    @pytest.mark.parametrize("expression", [None, 5, b"* * * * *", [], (), [""], [None]])
    def test_an_expression_is_a_text_or_several(self, expression: Any) -> None:
        assert refused(expression).field == "expression"


class TestQuestions:
    def test_several_expressions_give_each_instant_once(self) -> None:
        expressions = ["0 9 * * *", "0 */3 * * *", "at(2026-01-01T10:00:00)"]
        assert [text[6:11] for text in ask(expressions, "UTC", "2026-01-01T06:30", 4)] == [
            "09:00",
            "10:00",
            "12:00",
            "15:00",
        ]
        assert len(ask("0 9 * * *", "UTC", "2026-01-01", 9, also=["0 9 * * *"])) == 9

    def test_the_start_of_the_interval_is_excluded_and_the_end_included(self) -> None:
        table = timetable(Rule(expression="0 * * * *"), anchor=0)
        hour = ms("2026-01-01T01:00")
        assert list(fires(table, hour - 1, hour)) == [hour]
        assert list(fires(table, hour, hour)) == []

    def test_milliseconds_are_told_apart(self) -> None:
        assert ask("* * * * * *", "UTC", "2026-01-01T00:00:00.999", 1) == ["01-01T00:00:01+00:00"]
        assert ask("* * * * * *", "UTC", "2026-01-01T00:00:01", 1) == ["01-01T00:00:02+00:00"]

    @pytest.mark.parametrize("count", [0, 1001, -1, 1.0, "1", None, True])
    def test_the_count_is_1_to_1000(self, count: Any) -> None:
        with pytest.raises(InvalidInput) as caught:
            next_fires("* * * * *", after=at("2026-01-01"), count=count)
        assert caught.value.field == "count"

    @pytest.mark.parametrize("after", [datetime(2026, 1, 1), "2026-01-01", None, 0])  # noqa: DTZ001 naive on purpose
    def test_after_is_an_aware_datetime(self, after: Any) -> None:
        with pytest.raises(InvalidInput) as caught:
            next_fires("* * * * *", after=after, count=1)
        assert caught.value.field == "after"

    def test_after_may_be_of_any_zone(self) -> None:
        later = datetime.fromisoformat("2026-01-01T00:00:00+05:30")
        assert next_fires("0 0 * * *", after=later, count=1) == [at("2026-01-01")]

    def test_a_first_fire_beyond_a_century_is_refused_and_a_later_one_is_not(self) -> None:
        assert "100 years" in refused("cron(0 0 1 1 ? 2150)").problem
        assert len(next_fires("cron(0 0 1 1 ? 2027,2190)", after=at("2026-01-01"), count=5)) == 2


class TestBounds:
    def test_nothing_is_due_before_the_start_or_after_the_end(self) -> None:
        bounds = {"start": at("2026-01-02T09:00"), "end": at("2026-01-04T09:00")}
        expected = ["01-02T09:00+00:00", "01-03T09:00+00:00", "01-04T09:00+00:00"]
        assert ask("0 9 * * *", "UTC", "2026-01-01", 9, **bounds) == expected
        assert ask("0 9 * * *", "UTC", "2026-01-04T09:00", 9, **bounds) == []

    def test_fires_in_all_are_counted_from_when_the_schedule_became_active(self) -> None:
        rule = Rule(expression="0 9 * * *", max_fires=3)
        table = timetable(rule, anchor=ms("2026-01-01T10:00"))
        assert list(fires(table, ms("2026-01-01T10:00"), ms("2027-01-01"))) == [
            ms(f"2026-01-0{n}T09:00") for n in (2, 3, 4)
        ]
        assert table.next(ms("2026-01-03T12:00")) == ms("2026-01-04T09:00")
        assert table.next(ms("2026-01-04T09:00")) is None

    def test_the_count_begins_at_the_start_and_ends_with_the_end(self) -> None:
        assert len(ask("0 9 * * *", "UTC", "2026-01-01", 9, max_fires=2, start=at("2026-03-01"))) == 2
        assert len(ask("0 9 * * *", "UTC", "2026-01-01", 9, max_fires=5, end=at("2026-01-03"))) == 2

    def test_the_count_takes_excluded_fires_for_none(self) -> None:
        found = ask("0 9 * * *", "UTC", "2026-01-01", 9, max_fires=2, exclude=["2026-01-01/2026-01-05"])
        assert found == ["01-06T09:00+00:00", "01-07T09:00+00:00"]


class TestPinning:
    ANCHOR = ms("2026-01-01T10:00")

    def test_a_plain_rule_stays_as_it_is(self) -> None:
        rule = Rule(expression="0 9 * * *")
        assert pin(rule, anchor=self.ANCHOR, key=None) is rule

    def test_the_last_of_max_fires_is_worked_out_once(self) -> None:
        rule = Rule(expression="0 9 * * *", max_fires=3)
        pinned = pin(rule, anchor=self.ANCHOR, key=None)
        assert pinned.last == ms("2026-01-04T09:00")
        later = timetable(pinned, anchor=ms("2026-01-03T12:00"))  # resumed: what was counted stays counted
        assert list(fires(later, 0, ms("2027-01-01")))[-1] == pinned.last
        assert pin(pinned, anchor=ms("2026-01-03T12:00"), key=None) is pinned

    def test_a_pinned_and_an_unpinned_rule_fire_alike(self) -> None:
        rule = Rule(expression="0 * * * *", max_fires=5, window=1800, end=at("2026-01-01T14:59"))
        pinned = pin(rule, anchor=self.ANCHOR, key="k")
        both = [
            list(fires(timetable(each, anchor=self.ANCHOR, key="k"), self.ANCHOR, ms("2027-01-01")))
            for each in (rule, pinned)
        ]
        assert both[0] == both[1]
        assert len(both[0]) == 5  # the fire of 10:00 moved past the anchor, so it counts

    def test_the_jitter_keeps_its_seed(self) -> None:
        rule = Rule(expression="0 9 * * *", jitter=60)
        pinned = pin(rule, anchor=self.ANCHOR, key=None, seed="s1")
        assert pinned.seed == "s1"
        assert pin(pinned, anchor=self.ANCHOR, key=None, seed="s2").seed == "s1"

    @pytest.mark.parametrize(
        ("expression", "policies", "problem"),
        [
            ("at(2020-01-01T00:00:00)", {}, "nothing is due after 2026-01-01T10:00:00+00:00"),
            ("at(2026-03-29T02:30:00)", {"timezone": "Europe/Berlin", "gap": "skip"}, "nothing is due"),
            ("0 9 * * *", {"end": at("2026-01-01T12:00")}, "nothing is due"),
            ("cron(30 2 29 3 ? 2026)", {"timezone": "Europe/Berlin"}, "nothing is due"),
            ("cron(0 0 1 1 ? 2150)", {}, "more than 100 years away"),
            ("0 9 * * *", {"start": at("2150-01-01")}, "more than 100 years away"),
            ("0 9 * * *", {"exclude": ["* * * * *"]}, "every fire for years to come is excluded"),
            ("H 9 * * *", {}, "identity"),
            ("0 9 * * *", {"window": 60}, "identity"),
            ("0 9 * * *", {"jitter": 60}, "seed"),
        ],
    )
    def test_what_will_never_fire_or_cannot_be_worked_out_is_refused(
        self, expression: str, policies: dict[str, Any], problem: str
    ) -> None:
        with pytest.raises(ExpressionError) as caught:
            pin(Rule(expression=expression, **policies), anchor=self.ANCHOR, key=None)
        assert problem in caught.value.problem

    def test_croniter_reads_every_plain_expression_along(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read: list[str] = []

        def note(expression: str) -> bool:
            read.append(expression)
            return False

        monkeypatch.setattr(croniter, "is_valid", note)
        for foreign in (
            "0 9 L-3 * *",
            "0 9 LW * *",
            "H 9 * * *",
            "0 0 9 * * *",
            "@daily",
            "rate(1 day)",
            "cron(0 9 * * ? *)",
            "0 9 * * 5#1",
        ):
            pin(Rule(expression=foreign), anchor=self.ANCHOR, key="k")
        assert read == []
        with pytest.raises(ExpressionError, match="croniter does not read this"):
            pin(Rule(expression="0 9 * * MON"), anchor=self.ANCHOR, key=None)
        assert read == ["0 9 * * MON"]
