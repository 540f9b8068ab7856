"""Stripes and kept pollers in the stack: an SQS queue and an event source for each, known to all who send or take."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Duration, Stack
from aws_cdk.assertions import Template
from quarterjack.domain.queue import Queue
from quarterjack.errors import InvalidInput

from infra import Quarterjack
from infra.template import MOST_RESOURCES
from tests.support.parts import TURN
from tests.support.stacks import JOBS, NO_BUNDLING
from tests.support.templates import functions, queues_of, sources, statements

SAID = "default=3,reports=2"
SHARED = {"Work", "Work1", "Work2", "Workreports", "Workreports1", "Workmail"}


@pytest.fixture(scope="module")
def template(with_knobs: Callable[..., Template]) -> Template:
    queues = [Queue(name="reports", stripes=2, concurrency=24), Queue(name="mail", pollers=100)]
    return with_knobs(stripes=3, pollers=5, most_pollers=40, queues=queues)


def test_each_stripe_is_an_sqs_queue_that_a_source_reads_for_its_worker(template: Template) -> None:
    queues = template.find_resources("AWS::SQS::Queue").values()
    names = {queue["Properties"]["QueueName"].removeprefix("quarterjack-") for queue in queues}
    assert names == {
        "dead",
        "historian-aside",
        "work",
        "work_1",
        "work_2",
        "work-reports",
        "work-reports_1",
        "work-mail",
    }
    alike = {
        str({k: v for k, v in q["Properties"].items() if k != "QueueName"})
        for q in queues
        if "RedrivePolicy" in q["Properties"]
    }
    assert len(alike) == 1, "dead letters, visibility, retention and encryption as ever"
    read = {queue: source["FunctionName"]["Ref"][:-8] for queue, source in sources(template).items() if queue != "Dead"}
    assert read == {
        **dict.fromkeys(("Work", "Work1", "Work2"), "JobsWorkerFunction"),
        **dict.fromkeys(("Workreports", "Workreports1"), "JobsWorkerreportsFunction"),
        "Workmail": "JobsWorkermailFunction",
    }


def test_all_who_send_know_of_them_and_may_send_to_each(template: Template) -> None:
    said = {name: f["Environment"]["Variables"].get("QUARTERJACK_STRIPES") for name, f in functions(template).items()}
    told = ("auditor", "ticker", "undertaker", "worker", "worker-mail", "worker-reports")
    assert {name: said[name] for name in said if name.startswith("quarterjack-")} == {
        **{f"quarterjack-{n}": SAID for n in told},
        "quarterjack-historian": None,  # it sends nothing to a work queue
    }
    for part in ("Ticker", "Worker", "Undertaker", "Auditor"):
        assert queues_of(statements(template, f"Jobs{part}Role"), "sqs:SendMessage") - {"Dead"} == SHARED
    assert queues_of(statements(template, "JobsWorkerRole"), "sqs:ReceiveMessage") == SHARED
    assert template.find_outputs("*", {"Value": SAID})


def test_stripes_share_the_concurrency(template: Template) -> None:
    found = sources(template)
    for stripe in ("Workreports", "Workreports1"):
        assert (found[stripe]["BatchSize"], found[stripe]["ScalingConfig"]) == (6, {"MaximumConcurrency": 2})


def test_pollers_are_kept_for_each_stripe(template: Template) -> None:
    found = sources(template)
    assert all(
        found[stripe]["ProvisionedPollerConfig"] == {"MinimumPollers": 5, "MaximumPollers": 40}
        for stripe in ("Work", "Work1", "Work2")
    )
    assert found["Workmail"]["ProvisionedPollerConfig"] == {"MinimumPollers": 100, "MaximumPollers": 200}
    assert "ProvisionedPollerConfig" not in found["Workreports"]
    assert "ScalingConfig" not in found["Work"]


def test_the_ticker_is_told_when_to_hold_a_queue_back(template: Template, stack: Stack) -> None:
    def limits(of: Template) -> tuple[str, str]:
        said = functions(of)["quarterjack-ticker"]["Environment"]["Variables"]
        return said["QUARTERJACK_QUEUE_DEPTH"], said["QUARTERJACK_QUEUE_AGE"]

    assert limits(template) == ("50000", "600")
    Quarterjack(stack, "Jobs", jobs=JOBS, queue_depth=0, queue_age=Duration.minutes(5))
    assert limits(Template.from_stack(stack)) == ("0", "300")


@pytest.mark.parametrize(
    ("knobs", "field"),
    [
        ({"queue_depth": 120_001}, "queue_depth"),
        ({"queue_age": Duration.seconds(0)}, "queue_age"),
        ({"stripes": 0}, "stripes"),
        ({"stripes": 101}, "stripes"),
        ({"stripes": 3, "max_concurrency": 100}, "max_concurrency"),
        ({"stripes": 3, "max_concurrency": 3}, "max_concurrency"),
        ({"pollers": 10, "max_concurrency": 10}, "pollers"),
        ({"most_pollers": 10}, "most_pollers"),
        ({"pollers": 300}, "pollers"),
    ],
)
def test_what_lambda_would_refuse_is_refused_at_synthesis(stack: Stack, knobs: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Quarterjack(stack, "Jobs", jobs=JOBS, **knobs)
    assert (refusal.value.field, bool(refusal.value.remedy)) == (field, True)


@pytest.mark.check
@pytest.mark.parametrize(("stripes", "lanes"), [[(85, 1), (30, 3)][TURN % 2]])  # 13 s of processor time each
def test_stripes_that_no_template_holds_are_refused_with_a_number_that_one_does(
    tmp_path: Path, stripes: int, lanes: int
) -> None:
    def declare(name: str, number: int) -> Stack:
        stack = Stack(App(context=NO_BUNDLING, outdir=str(tmp_path / name)), name)
        queue = Queue(name="reports", stripes=number, priorities=lanes == 3)
        Quarterjack(stack, "Jobs", jobs=JOBS, queues=[queue])
        return stack

    with pytest.raises(
        InvalidInput, match=rf"stripes={stripes}: are too many of queue reports.* use at most \d+"
    ) as refusal:
        declare("Many", stripes)
    (fits,) = map(int, re.findall(r"use at most (\d+)", str(refusal.value)))
    text = json.dumps(Template.from_stack(declare("Fitting", fits)).to_json(), separators=(",", ":"))
    assert 440 <= len(json.loads(text)["Resources"]) <= MOST_RESOURCES, "most of what it holds, and no more"
    assert len(text) < 1_000_000, "CloudFormation takes a megabyte"
