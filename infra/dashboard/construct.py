"""The dashboard, and the rules of CloudWatch's Contributor Insights that say which tenants contribute most.

The rules read the lines `run.started` and `run.ended`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from ..figures import DIMENSIONS, Figure, Source
from ..installation import InstallationSettings
from .panels import DAY, LINES, PANELS, WORKER, Charge, LinesPanel, Panel, charges

_THIRD, _HALF, _WHOLE, _HEIGHT = 8, 12, 24, 6  # columns and rows


class InstallationDashboard(Construct):
    """One dashboard of the installation. With several workers the reader chooses the one whose figures it shows.

    ``workers``: the parts of the workers, that of the default queue first. ``memory``: MB of ticker and default worker.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        installation: InstallationSettings,
        workers: Sequence[str],
        memory: dict[str, int],
    ) -> None:
        super().__init__(scope, name)
        self._installation = installation
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=installation.name("installation"),
            default_interval=Duration.hours(3),
            variables=[self._choice(workers)] if len(workers) > 1 else None,
        )
        for at in range(0, len(PANELS), 3):
            self.dashboard.add_widgets(*map(self._panel, PANELS[at : at + 3]))
        self.dashboard.add_widgets(self._cost(list(charges(memory))))
        self.dashboard.add_widgets(*map(self._lines, LINES))

    def _choice(self, workers: Sequence[str]) -> cloudwatch.DashboardVariable:
        """A list of the workers: the chosen one replaces the default worker's name everywhere."""
        named = [self._installation.name(part) for part in workers]
        return cloudwatch.DashboardVariable(
            id="worker",
            label="Worker",
            type=cloudwatch.VariableType.PATTERN,
            input_type=cloudwatch.VariableInputType.SELECT,
            value=self._installation.name(WORKER),
            default_value=cloudwatch.DefaultValue.value(named[0]),
            values=cloudwatch.Values.from_values(
                *(cloudwatch.VariableValue(value=name, label=name) for name in named),
            ),
            visible=True,
        )

    def _panel(self, panel: Panel) -> cloudwatch.IWidget:
        metrics = [self._metric(figure, panel.minutes) for figure in panel.figures]
        if panel.numbers:
            return cloudwatch.SingleValueWidget(
                title=panel.title, metrics=metrics, width=_THIRD, height=_HEIGHT, set_period_to_time_range=True
            )
        return cloudwatch.GraphWidget(title=panel.title, left=metrics, width=_THIRD, height=_HEIGHT)

    def _metric(self, figure: Figure, minutes: int) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=str(figure.source),
            metric_name=figure.name,
            dimensions_map={DIMENSIONS[figure.source]: self._installation.measured(figure)},
            statistic=figure.statistic,
            period=Duration.minutes(minutes),
            label=f"{figure.name} {figure.statistic}" if figure.statistic.startswith("p") else _label(figure),
        )

    def _cost(self, billed: Sequence[Charge]) -> cloudwatch.IWidget:
        """US dollars of each day: counted calls times prices."""
        used = {
            f"{charge.word}{number}": self._metric(figure, DAY)
            for charge in billed
            for number, figure in enumerate(charge.figures)
        }
        terms = [
            f"{charge.price:.12f} * ({' + '.join(f'FILL({charge.word}{n}, 0)' for n in range(len(charge.figures)))})"
            for charge in billed
        ]
        dollars = cloudwatch.MathExpression(
            expression=" + ".join(terms), using_metrics=used, period=Duration.minutes(DAY), label="US dollars a day"
        )
        title = "Cost of the day in US dollars: calls, units and function time at the prices of us-east-1"
        return cloudwatch.GraphWidget(
            title=title,
            left=[dollars],
            period=Duration.minutes(DAY),
            view=cloudwatch.GraphWidgetView.BAR,
            start="-P14D",
            width=_WHOLE,
            height=_HEIGHT,
        )

    def _lines(self, panel: LinesPanel) -> cloudwatch.LogQueryWidget:
        return cloudwatch.LogQueryWidget(
            title=panel.title,
            log_group_names=[f"/aws/lambda/{self._installation.name(part)}" for part in panel.parts],
            query_lines=list(panel.query),
            view=cloudwatch.LogQueryVisualizationType.TABLE,
            width=_HALF,
            height=_HEIGHT,
        )


class TenantInsights(Construct):
    """Rules of Contributor Insights: the tenants that start, are late, fail or wait the most, from the workers' lines."""

    def __init__(
        self, scope: Construct, name: str, *, installation: InstallationSettings, workers: Sequence[str]
    ) -> None:
        super().__init__(scope, name)
        groups = [f"/aws/lambda/{installation.name(part)}" for part in workers]
        for rule in RULES:
            cloudwatch.CfnInsightRule(
                self,
                rule.name,
                rule_name=installation.name(f"tenants-{rule.name.lower()}"),
                rule_state="ENABLED",
                rule_body=json.dumps(rule_body(rule, groups)),
            )


def _label(figure: Figure) -> str:
    return figure.name if figure.source is Source.OURS else f"{figure.name} of the {figure.part}"


_LATE = 2_000  # ms after its time that a run is late
_WAITED = 60_000  # ms that say that a run had a backlog before it


@dataclass(frozen=True)
class TenantRule:
    """The tenants by the number of lines that fit ``filters``, or by the sum of ``value``, a field of these lines."""

    name: str
    filters: tuple[Mapping[str, Any], ...]
    value: str | None = None


def _event(name: str) -> Mapping[str, Any]:
    return {"Match": "$.message", "In": [name]}


RULES = (
    TenantRule("Starts", (_event("run.started"),)),
    TenantRule(
        "Lateness", (_event("run.started"), {"Match": "$.lateness_ms", "GreaterThan": _LATE}), value="$.lateness_ms"
    ),
    TenantRule("Errors", (_event("run.ended"), {"Match": "$.error_type", "IsPresent": True})),
    TenantRule("Backlog", (_event("run.started"), {"Match": "$.lateness_ms", "GreaterThan": _WAITED})),
)


def rule_body(rule: TenantRule, groups: Sequence[str]) -> dict[str, Any]:
    """In the form of CloudWatch's own rules, version 1."""
    contribution: dict[str, Any] = {"Keys": ["$.tenant"], "Filters": [dict(each) for each in rule.filters]}
    if rule.value is not None:
        contribution["ValueOf"] = rule.value
    return {
        "Schema": {"Name": "CloudWatchLogRule", "Version": 1},
        "LogGroupNames": list(groups),
        "LogFormat": "JSON",
        "Contribution": contribution,
        "AggregateOn": "Count" if rule.value is None else "Sum",
    }
