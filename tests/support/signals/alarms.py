"""Alarms as a template of CloudFormation has them. A property that is not known here raises."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.signals.figures import Dimensions

_METRIC = {
    *("ActionsEnabled", "AlarmActions", "AlarmDescription", "AlarmName", "ComparisonOperator", "DatapointsToAlarm"),
    *("EvaluationPeriods", "Metrics", "OKActions", "Tags", "Threshold", "TreatMissingData"),
}
_COMPOSITE = {
    *("ActionsSuppressor", "ActionsSuppressorExtensionPeriod", "ActionsSuppressorWaitPeriod", "AlarmActions"),
    *("AlarmDescription", "AlarmName", "AlarmRule", "OKActions", "Tags"),
}


@dataclass(frozen=True, kw_only=True)
class FigureOfAlarm:
    """A figure that an alarm reads."""

    namespace: str
    name: str
    dimensions: Dimensions
    statistic: str
    period: int  # minutes


@dataclass(frozen=True, kw_only=True)
class MetricAlarm:
    """A condition on figures."""

    name: str
    description: str
    figures: Mapping[str, FigureOfAlarm]
    formula: str
    period: int  # minutes
    operator: str
    threshold: float
    times: int
    out_of: int
    missing: str
    pages: bool


@dataclass(frozen=True, kw_only=True)
class CompositeAlarm:
    """A condition on other alarms; ``rule``: an expression of Python over the function ALARM of their names."""

    name: str
    description: str
    rule: ast.expr
    suppressor: str | None
    wait: int  # minutes
    extension: int  # minutes
    pages: bool


def alarms_of(resources: Mapping[str, Mapping[str, Any]]) -> tuple[Sequence[MetricAlarm], Sequence[CompositeAlarm]]:
    """The alarms of a template's resources."""
    found: dict[str, dict[str, Any]] = {"Alarm": {}, "CompositeAlarm": {}}
    for resource, body in resources.items():
        service, _, kind = body["Type"].rpartition("::")
        if service == "AWS::CloudWatch" and kind in found and _is_ours(body["Properties"]):
            found[kind][resource] = body["Properties"]
    names = {resource: given["AlarmName"] for kind in found.values() for resource, given in kind.items()}
    return (
        [_metric_alarm(given) for given in found["Alarm"].values()],
        [_composite(given, names) for given in found["CompositeAlarm"].values()],
    )


def _is_ours(given: Mapping[str, Any]) -> bool:
    """The scaling of containers has alarms of its own, without a name."""
    return "AlarmName" in given


def _metric_alarm(given: Mapping[str, Any]) -> MetricAlarm:
    _known(given, _METRIC)
    (formula,) = (metric for metric in given["Metrics"] if "Expression" in metric)
    figures = {metric["Id"]: _figure(metric["MetricStat"]) for metric in given["Metrics"] if "MetricStat" in metric}
    (period,) = {figure.period for figure in figures.values()}
    return MetricAlarm(
        name=given["AlarmName"],
        description=given["AlarmDescription"],
        figures=figures,
        formula=formula["Expression"],
        period=period,
        operator=given["ComparisonOperator"],
        threshold=given["Threshold"],
        times=given.get("DatapointsToAlarm", given["EvaluationPeriods"]),
        out_of=given["EvaluationPeriods"],
        missing=given["TreatMissingData"],
        pages=bool(given.get("AlarmActions")),
    )


def _figure(given: Mapping[str, Any]) -> FigureOfAlarm:
    _known(given, {"Metric", "Period", "Stat"})
    metric = given["Metric"]
    _known(metric, {"Dimensions", "MetricName", "Namespace"})
    return FigureOfAlarm(
        namespace=metric["Namespace"],
        name=metric["MetricName"],
        dimensions=tuple((one["Name"], one["Value"]) for one in metric["Dimensions"]),
        statistic=given["Stat"],
        period=given["Period"] // 60,
    )


def _composite(given: Mapping[str, Any], names: Mapping[str, str]) -> CompositeAlarm:
    _known(given, _COMPOSITE)
    suppressor = given.get("ActionsSuppressor")
    return CompositeAlarm(
        name=given["AlarmName"],
        description=given["AlarmDescription"],
        rule=_rule(given["AlarmRule"], names),
        suppressor=None if suppressor is None else names[suppressor["Fn::GetAtt"][0]],
        wait=given.get("ActionsSuppressorWaitPeriod", 0) // 60,
        extension=given.get("ActionsSuppressorExtensionPeriod", 0) // 60,
        pages=bool(given.get("AlarmActions")),
    )


def _rule(given: Mapping[str, Any], names: Mapping[str, str]) -> ast.expr:
    parts = given["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else names[part["Fn::GetAtt"][0]] for part in parts)
    text = re.sub(r"\b(AND|OR|NOT)\b", lambda word: word[0].lower(), text)
    return ast.parse(text, mode="eval").body


def _known(given: Mapping[str, Any], words: set[str]) -> None:
    unknown = given.keys() - words
    if unknown:
        raise NotImplementedError(f"{given.get('AlarmName')}: {sorted(unknown)} is not evaluated here")
