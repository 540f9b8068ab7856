"""The evaluator of alarms that the nights rely on: by hand-made templates, what it must find and what it must not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.signals.evaluator import Evaluator
from tests.support.signals.figures import Key
from tests.support.signals.formulas import UnknownFormulaError, evaluate
from tests.support.signals.lateness import Lateness, all_late, drawn, late_source, punctual, swaying

KEY: Key = ("N", "errors", (("service", "s"),))


def alarm(name: str, *, times: int = 1, out_of: int = 1, period: int = 1, **more: Any) -> dict[str, Any]:
    metric = {"Namespace": "N", "MetricName": "errors", "Dimensions": [{"Name": "service", "Value": "s"}]}
    stat = {"Metric": metric, "Period": 60 * period, "Stat": more.pop("stat", "Sum")}
    return {
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "AlarmName": name,
            "AlarmDescription": "",
            "Metrics": [
                {"Id": "m", "MetricStat": stat, "ReturnData": False},
                {"Id": "e", "Expression": more.pop("formula", "m")},
            ],
            "ComparisonOperator": "GreaterThanThreshold",
            "Threshold": 0,
            "DatapointsToAlarm": times,
            "EvaluationPeriods": out_of,
            "TreatMissingData": "notBreaching",
            "AlarmActions": ["topic"],
            **more,
        },
    }


def composite(name: str, *rule: Any, **more: Any) -> dict[str, Any]:
    parts = [{"Fn::GetAtt": [part[1:], "Arn"]} if part.startswith("@") else part for part in rule]
    given = {
        "AlarmName": name,
        "AlarmDescription": "",
        "AlarmRule": {"Fn::Join": ["", parts]},
        "AlarmActions": ["topic"],
    }
    return {"Type": "AWS::CloudWatch::CompositeAlarm", "Properties": {**given, **more}}


def states(
    values: list[float | None], resources: dict[str, Any], name: str = "a", lateness: Lateness = punctual
) -> str:
    """The state after each minute: A for ALARM, o for OK."""
    found, shown = Evaluator(resources, lateness=lateness), ""
    for minute, value in enumerate(values):
        if value is not None:
            found.figures.add(KEY, minute, [value])
        found.evaluate()
        shown += "A" if found.states[name] == "ALARM" else "o"
    return shown


def test_a_spike_is_no_alarm_that_has_to_last() -> None:
    lasting = {"A": alarm("a", times=3, out_of=3, formula="FILL(m, 0)")}
    assert states([1, 1, None, 1, 1, 0, 1, 1, 1, 1, 0], lasting) == "ooooooooAAo"


def test_m_of_n() -> None:
    assert states([1, 0, 1, 0, 0, 1, 0], {"A": alarm("a", times=2, out_of=3)}) == "ooAooo" + "o"


def test_older_values_stand_in_for_those_that_are_missing() -> None:
    """As CloudWatch does: three in a row may be minutes apart, which is why the alarms of the stack fill in zeros."""
    assert states([1, None, 1, None, 1], {"A": alarm("a", times=3, out_of=3)}) == "ooooA"
    assert states([1, None, 1, None, 1], {"A": alarm("a", times=3, out_of=3, formula="FILL(m, 0)")}) == "ooooo"


def test_missing_values_count_as_the_alarm_says() -> None:
    silent = alarm(
        "a", times=2, out_of=2, ComparisonOperator="LessThanThreshold", Threshold=1, TreatMissingData="breaching"
    )
    assert states([1, 1, 1, None, None, None, None], {"A": silent})[-1] == "A"
    with pytest.raises(NotImplementedError):
        states([1], {"A": alarm("a", TreatMissingData="ignore")})


def test_windows_slide_and_statistics_are_of_all_values() -> None:
    assert states([0, 0, 5, 0, 0, 0], {"A": alarm("a", period=3, Threshold=4)}) == "ooAAAo"
    found = Evaluator({"A": alarm("a", stat="p95", Threshold=9)})
    found.figures.add(KEY, 0, [*range(95), *([100] * 5)])
    found.evaluate()
    assert found.states["a"] == "ALARM"
    assert found.figures.value(KEY, "p95", 0, 1) == 94


def test_formulas() -> None:
    series: dict[str, list[float | None]] = {"a": [1.0, None, 4.0], "b": [2.0, 2.0, 0.0]}
    assert evaluate("a + b * 2", series, 3) == [5, None, 4]
    assert evaluate("a / b", series, 3) == [0.5, None, None]
    assert evaluate("IF(b > 1 AND FILL(a, 0) < 1, 7, b)", series, 3) == [2, 7, 0]
    assert evaluate("DIFF(FILL(a, 0))", series, 3) == [None, -1, 4]
    for unknown in ("SUM(a)", "a ^ b", "c", "a +", "FILL(a)", "__import__('os')"):
        with pytest.raises(UnknownFormulaError):
            evaluate(unknown, series, 3)


def test_an_unknown_property_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="EvaluateLowSampleCountPercentile"):
        Evaluator({"A": alarm("a", EvaluateLowSampleCountPercentile="ignore")})


def suppressed(wait: int, extension: int) -> dict[str, Any]:
    """A page of every positive value, hidden by an alarm of values over ten."""
    hiding = {
        "ActionsSuppressor": {"Fn::GetAtt": ["C", "Arn"]},
        "ActionsSuppressorWaitPeriod": 60 * wait,
        "ActionsSuppressorExtensionPeriod": 60 * extension,
    }
    return {
        "A": alarm("a", AlarmActions=[]),
        "C": alarm("cause", Threshold=10, AlarmActions=[]),
        "P": composite("page", 'ALARM("', "@A", '")', **hiding),
    }


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1, 1, 1, 1], [(3, "ALARM")]),  # nothing hides it: it waits, and pages
        ([1, 0, 0], []),  # it is over before its time
        ([1, 11, 11, 0], []),  # its cause shows in time, and both end
        ([1, 11, 1, 1, 1, 1, 1], [(6, "ALARM")]),  # the cause has gone, it has not
        ([1, 11, 1, 1, 0, 0, 0], []),  # it ends within the extension
        ([1, 1, 1, 1, 0], [(3, "ALARM"), (5, "OK")]),  # its end is told
    ],
)
def test_a_page_is_hidden_by_its_cause(values: list[float], told: list[tuple[int, str]]) -> None:
    found = Evaluator(suppressed(wait=2, extension=3))
    for minute, value in enumerate(values):
        found.figures.add(KEY, minute, [value])
        found.evaluate()
    assert [(one.minute, one.state) for one in found.told] == told


def test_rules_of_several_alarms() -> None:
    resources = {
        "A": alarm("a", AlarmActions=[]),
        "B": alarm("b", Threshold=10, AlarmActions=[]),
        "R": composite("r", 'ALARM("', "@A", '") AND NOT (ALARM("', "@B", '"))'),
    }
    assert states([0, 1, 11, 1], resources, "r") == "oAoA"


# Figures that come late.


def test_a_late_figure_is_seen_so_many_minutes_later() -> None:
    for late in range(6):
        assert (
            states([0, 1, 0, 0, 0, 0, 0, 0], {"A": alarm("a", out_of=6)}, lateness=all_late(late)).index("A")
            == 1 + late
        )


def test_zeros_in_the_place_of_late_figures_hide_what_lasts() -> None:
    """Why an alarm with one-minute periods looks at more values than it needs: the last ones are filled in, not measured."""
    lasting = {"A": alarm("a", times=3, out_of=3, formula="FILL(m, 0)")}
    assert states([1] * 12, lasting)[2:] == "A" * 10
    assert states([1] * 12, lasting, lateness=all_late(1)) == "o" * 12
    room = {"A": alarm("a", times=3, out_of=6, formula="FILL(m, 0)")}
    assert [states([1] * 12, room, lateness=all_late(late)).index("A") for late in range(4)] == [2, 3, 4, 5]


def test_silence_that_is_only_late_pages_a_healthy_installation() -> None:
    silent: dict[str, Any] = {
        "ComparisonOperator": "LessThanThreshold",
        "Threshold": 1,
        "TreatMissingData": "breaching",
    }
    few = {"A": alarm("a", times=3, out_of=4, formula="FILL(m, 0)", **silent)}
    assert "A" in states([1] * 12, few, lateness=all_late(3))[6:]
    assert "A" not in states([1] * 12, few)[6:]


def test_a_long_period_has_the_figures_of_its_first_minutes() -> None:
    resources = {"A": alarm("a", period=5, Threshold=2)}
    assert states([1] * 8, resources) == "ooAAAAAA"
    assert states([1] * 8, resources, lateness=all_late(3)) == "o" * 8


def test_each_metric_is_as_late_as_it_is_said() -> None:
    other: Key = ("AWS/SQS", "errors", (("QueueName", "q"),))
    assert [late_source(4, "AWS/SQS")(key, 0) for key in (KEY, other)] == [0, 4]
    found = [drawn(seed)(key, minute) for seed in range(60) for key in (KEY, other) for minute in (0, 1)]
    assert set(found) == set(range(6))
    assert found[::2] == found[1::2]
    assert found == [drawn(seed)(key, minute) for seed in range(60) for key in (KEY, other) for minute in (0, 1)]
    assert any(drawn(seed)(KEY, 0) != drawn(seed)(other, 0) for seed in range(60))


def test_a_metric_that_sways_loses_no_figure_that_was_seen() -> None:
    seen = [minute - swaying(3)(KEY, minute) for minute in range(40)]
    assert seen == sorted(seen)
    assert {minute - there for minute, there in enumerate(seen)} == set(range(6))
