"""The dashboard: what it shows is emitted, is at most 50 metrics, and leads to this installation; and who contributes, by tenant."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk.assertions import Template
from quarterjack.domain.queue import Queue
from quarterjack.errors import InvalidInput
from quarterjack.signals.catalogue import METRICS

from bench.modelled import prices
from infra.dashboard import panels
from infra.dashboard.panels import LINES, MOST_METRICS, PANELS, charges
from infra.figures import Source

MEMORY = {"ticker": 1769, "worker": 512}


@pytest.fixture(scope="module")
def template(with_knobs: Callable[..., Template]) -> Template:
    queues = [Queue(name="mail"), Queue(name="gpu", container=True)]
    return with_knobs(prefix="acme", queues=queues, tenant_insights=True, memory=1024)


def written(part: Any) -> str:
    """A text of the template, with the references to AWS's own values by their names."""
    if isinstance(part, str):
        return part
    return "".join(each if isinstance(each, str) else each["Ref"] for each in part["Fn::Join"][1])


@pytest.fixture(scope="module")
def body(template: Template) -> dict[str, Any]:
    (found,) = template.find_resources("AWS::CloudWatch::Dashboard").values()
    assert found["Properties"]["DashboardName"] == "acme-installation"
    return dict(json.loads(written(found["Properties"]["DashboardBody"])))


def metrics_of(body: dict[str, Any]) -> list[list[Any]]:
    return [line for widget in body["widgets"] for line in widget["properties"].get("metrics", [])]


def test_a_dashboard_of_so_many_metrics_is_free(body: dict[str, Any]) -> None:
    shown = {tuple(line[:4]) for line in metrics_of(body) if isinstance(line[0], str)}
    figures = [one for panel in PANELS for one in panel.figures]
    figures += [one for charge in charges(MEMORY) for one in charge.figures]
    assert len(shown) == len({(one.source, one.part, one.name) for one in figures}) <= MOST_METRICS


def test_every_metric_of_ours_is_emitted_by_the_part_that_it_is_shown_of() -> None:
    ours = [figure for panel in PANELS for figure in panel.figures if figure.source is Source.OURS]
    for figure in ours:
        assert figure.part in METRICS[figure.name].roles, figure


@pytest.mark.parametrize(
    "words",
    [
        ["Ticks", "Started"],  # alive
        ["SchedulingLag", "QueueWait", "StartLag", "RunDuration"],  # one view
        ["Succeeded", "Failed", "Lost"],
        ["Started", "AttemptsFailed", "Retried", "Dead"],  # the retry funnel
        ["SendFailed", "Redelivered", "LeasesRescued"],  # stability
    ],
)
def test_what_belongs_together_is_in_one_view(body: dict[str, Any], words: list[str]) -> None:
    views = [
        {line[1] for line in widget["properties"].get("metrics", []) if isinstance(line[0], str)}
        for widget in body["widgets"]
    ]
    assert any(set(words) <= view for view in views)


def test_everything_is_of_this_installation(body: dict[str, Any]) -> None:
    for line in metrics_of(body):
        if isinstance(line[0], str):
            assert line[3].startswith("acme-"), line
    queries = [widget["properties"]["query"] for widget in body["widgets"] if widget["type"] == "log"]
    assert len(queries) == len(LINES)
    for query in queries:
        assert re.search(r"SOURCE '/aws/lambda/acme-(worker|undertaker)'", query)


def test_the_reader_chooses_a_worker_and_nothing_else_has_its_name(body: dict[str, Any]) -> None:
    (choice,) = body["variables"]
    assert (choice["type"], choice["pattern"]) == ("pattern", "acme-worker")
    assert [value["value"] for value in choice["values"]] == ["acme-worker", "acme-worker-mail", "acme-worker-gpu"]
    text = json.dumps(body["widgets"])
    assert set(re.findall(r"acme-worker[\w-]*", text)) == {"acme-worker"}


def test_the_cost_of_the_day_is_counted_calls_times_prices(body: dict[str, Any]) -> None:
    (widget,) = (each for each in body["widgets"] if each["properties"].get("title", "").startswith("Cost of the day"))
    lines = widget["properties"]["metrics"]
    expression = next(line[0]["expression"] for line in lines if not isinstance(line[0], str))
    ids = {line[-1]["id"]: 1_000_000.0 for line in lines if isinstance(line[0], str)}
    dollars = eval(expression, {"FILL": lambda value, other: value, **ids})
    a_second = prices.GB_SECOND.dollars
    function_time = 1_000 * a_second * (1769 + 1024) / 1024  # a million ms each
    units = 2 * (1_000_000 * prices.WRITE.dollars + 1_000_000 * prices.READ.dollars)
    calls = 2 * 1_000_000 * prices.INVOCATION.dollars + (1 + 3 / 10) * 1_000_000 * prices.SQS.dollars
    assert dollars == pytest.approx(function_time + units + calls)
    assert all(line[-1]["stat"] == "Sum" for line in lines if isinstance(line[0], str))


def test_prices_are_those_of_the_model() -> None:
    ours = (panels.INVOCATION, panels.GB_SECOND, panels.WRITE, panels.READ, panels.REQUEST)
    models = (prices.INVOCATION, prices.GB_SECOND, prices.WRITE, prices.READ, prices.SQS)
    assert ours == tuple(price.dollars for price in models)
    assert all(charge.price > 0 for charge in charges(MEMORY))


def test_tenants_are_counted_by_the_lines_of_all_worker_functions(template: Template) -> None:
    rules = {
        found["Properties"]["RuleName"]: json.loads(found["Properties"]["RuleBody"])
        for found in template.find_resources("AWS::CloudWatch::InsightRule").values()
    }
    assert rules.keys() == {f"acme-tenants-{word}" for word in ("starts", "lateness", "errors", "backlog")}
    for rule in rules.values():
        assert rule["Schema"] == {"Name": "CloudWatchLogRule", "Version": 1}
        assert rule["LogGroupNames"] == ["/aws/lambda/acme-worker", "/aws/lambda/acme-worker-mail"]
        assert rule["Contribution"]["Keys"] == ["$.tenant"]
    assert rules["acme-tenants-lateness"]["AggregateOn"] == "Sum"
    assert rules["acme-tenants-lateness"]["Contribution"]["ValueOf"] == "$.lateness_ms"


def test_without_the_knobs_there_is_a_dashboard_of_one_worker_and_no_rule(with_knobs: Callable[..., Template]) -> None:
    template = with_knobs()
    (found,) = template.find_resources("AWS::CloudWatch::Dashboard").values()
    assert "variables" not in json.loads(written(found["Properties"]["DashboardBody"]))
    template.resource_count_is("AWS::CloudWatch::InsightRule", 0)


def test_it_can_be_left_out(with_knobs: Callable[..., Template]) -> None:
    with_knobs(dashboard=False).resource_count_is("AWS::CloudWatch::Dashboard", 0)


@pytest.mark.parametrize("knob", ["dashboard", "tenant_insights"])
def test_what_is_neither_true_nor_false_is_refused(with_knobs: Callable[..., Template], knob: str) -> None:
    with pytest.raises(InvalidInput, match=knob):
        with_knobs(**{knob: "no"})
