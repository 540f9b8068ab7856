"""Declared queues in the stack: an SQS queue and a worker for each, found in the package or given."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Match, Template
from cdk_nag import AwsSolutionsChecks
from quarterjack.domain.queue import Queue
from quarterjack.errors import InvalidInput
from quarterjack.sqs.routing import MAX_RECEIVES, WORK

from infra import Quarterjack
from tests.support.stacks import FLAGS, JOBS, NO_BUNDLING
from tests.support.templates import functions, queues_of, statements

QUEUES = [
    Queue(name="reports", concurrency=12, memory=3008, timeout=120),
    Queue(name="mail"),
    Queue(name="gpu", concurrency=1, container=True),
]
TOPIC = "arn:aws:sns:eu-west-1:123456789012:incidents"


@pytest.fixture(scope="module")
def template(with_knobs: Callable[..., Template]) -> Template:
    return with_knobs(queues=QUEUES, notice_topics=[TOPIC], environment={"COLOUR": "green"})


def source_of(template: Template, function: str) -> dict[str, Any]:
    """The event source of a function, by its logical name."""
    (found,) = (
        s["Properties"]
        for s in template.find_resources("AWS::Lambda::EventSourceMapping").values()
        if s["Properties"]["FunctionName"]["Ref"].startswith(f"{function}Function")
    )
    return dict(found)


@pytest.mark.parametrize("queue", QUEUES, ids=lambda queue: queue.name)
def test_each_has_an_sqs_queue_like_the_default_one(template: Template, queue: Queue) -> None:
    template.has_resource_properties(
        "AWS::SQS::Queue",
        {
            "QueueName": f"quarterjack-work-{queue.name}",
            "VisibilityTimeout": WORK.visibility,
            "MessageRetentionPeriod": WORK.retention,
            "RedrivePolicy": {
                "maxReceiveCount": MAX_RECEIVES,
                "deadLetterTargetArn": {"Fn::GetAtt": [Match.string_like_regexp("JobsQueuesDead.*"), "Arn"]},
            },
            "SqsManagedSseEnabled": True,
        },
    )


def test_each_has_a_worker_of_its_own_size_but_those_on_containers(template: Template) -> None:
    workers = {name: f for name, f in functions(template).items() if name.startswith("quarterjack-worker")}
    assert {name: (f["MemorySize"], f["Timeout"]) for name, f in workers.items()} == {
        "quarterjack-worker": (512, 900),
        "quarterjack-worker-reports": (3008, 120),
        "quarterjack-worker-mail": (512, 900),
    }
    assert all(f["Timeout"] <= WORK.visibility for f in workers.values())
    reports = workers["quarterjack-worker-reports"]
    assert reports["Handler"] == "functions/worker/handler.handler"
    assert reports["RecursiveLoop"] == "Allow"
    variables = reports["Environment"]["Variables"]
    assert (variables["QUARTERJACK_WORK_QUEUE"], variables["QUARTERJACK_JOBS"]) == ("reports", "acme.jobs")
    assert (variables["COLOUR"], variables["POWERTOOLS_SERVICE_NAME"]) == ("green", "quarterjack-worker-reports")
    assert "QUARTERJACK_WORK_QUEUE" not in workers["quarterjack-worker"]["Environment"]["Variables"]


def test_the_event_source_holds_to_the_concurrency(template: Template) -> None:
    reports, mail = source_of(template, "JobsWorkerreports"), source_of(template, "JobsWorkermail")
    assert reports["EventSourceArn"]["Fn::GetAtt"][0].startswith("JobsQueuesWorkreports")
    assert (reports["BatchSize"], reports["ScalingConfig"]) == (6, {"MaximumConcurrency": 2})
    assert (mail["BatchSize"], mail["ScalingConfig"]) == (10, {"MaximumConcurrency": 100})
    assert reports["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_what_is_granted_to_one_worker_is_granted_to_each(stack: Stack) -> None:
    topic = sns.Topic(stack, "News")
    jobs = Quarterjack(stack, "Jobs", jobs=JOBS, queues=QUEUES)
    topic.grant_publish(jobs.worker)
    assert set(jobs.workers) == {"reports", "mail"}
    roles = {f["Role"]["Fn::GetAtt"][0] for n, f in functions(Template.from_stack(stack)).items() if "worker" in n}
    assert len(roles) == 1


EVERY = {"Work", "Workreports", "Workmail", "Workgpu"}


@pytest.mark.parametrize("part", ["Ticker", "Worker", "Undertaker", "Auditor"])
def test_whoever_sends_may_send_to_each(template: Template, part: str) -> None:
    assert queues_of(statements(template, f"Jobs{part}Role"), "sqs:SendMessage") - {"Dead"} == EVERY


def test_the_workers_take_from_each_and_write_their_own_logs(template: Template) -> None:
    allowed = statements(template, "JobsWorkerRole")
    assert queues_of(allowed, "sqs:ReceiveMessage") == EVERY
    logs = json.dumps([s["Resource"] for s in allowed if "logs:PutLogEvents" in s["Action"]])
    assert all(name in logs for name in ("JobsWorkerLogs", "JobsWorkerreportsLogs", "JobsWorkermailLogs"))


def test_the_ticker_publishes_to_the_topics_given_and_to_nothing_else(template: Template, stack: Stack) -> None:
    (allowed,) = (s for s in statements(template, "JobsTickerRole") if s["Action"] == "sns:Publish")
    assert allowed["Resource"] == TOPIC
    Quarterjack(stack, "Jobs", jobs=JOBS)
    assert "sns:Publish" not in json.dumps(statements(Template.from_stack(stack), "JobsTickerRole"))


def test_who_schedules_sends_to_each_and_may_ask_which_there_are(stack: Stack) -> None:
    role = iam.Role(stack, "Api", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    Quarterjack(stack, "Jobs", jobs=JOBS, queues=QUEUES).grant_scheduling(role)
    allowed = statements(Template.from_stack(stack), "ApiDefaultPolicy")
    assert queues_of(allowed, "sqs:SendMessage") == EVERY
    assert [s["Resource"] for s in allowed if s["Action"] == "sqs:ListQueues"] == ["*"]


def test_cdk_nag_has_nothing_to_say(tmp_path: Path) -> None:
    app = App(context={**FLAGS, **NO_BUNDLING}, outdir=str(tmp_path))
    stack = Stack(app, "Test")
    jobs = Quarterjack(stack, "Jobs", jobs=JOBS, queues=QUEUES, notice_topics=[TOPIC])
    jobs.grant_scheduling(iam.Role(stack, "Api", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com")))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()
    report = json.loads((tmp_path / "validation-report.json").read_text())
    assert not [violation for plugin in report["pluginReports"] for violation in plugin["violations"]]


# Where they come from.


def package(folder: Path, text: str) -> Path:
    place = folder / "lanes.py"
    place.write_text(text)
    return place


def test_they_are_found_in_the_package(stack: Stack, tmp_path: Path) -> None:
    text = "from quarterjack import Queue, job\nQueue('slow', memory=1024)\n@job('a', queue='slow')\ndef a(c, p): ...\n"
    Quarterjack(stack, "Jobs", jobs=package(tmp_path, text))
    assert functions(Template.from_stack(stack))["quarterjack-worker-slow"]["MemorySize"] == 1024


def test_a_package_that_cannot_be_imported_here_is_not_guessed_at(stack: Stack, tmp_path: Path) -> None:
    jobs = package(tmp_path, "import torch_of_tomorrow\nfrom quarterjack import Queue\n")
    with pytest.raises(InvalidInput, match=r"torch_of_tomorrow.*pass queues=") as refusal:
        Quarterjack(stack, "Jobs", jobs=jobs)
    assert refusal.value.field == "queues"
    Quarterjack(stack, "Given", jobs=jobs, queues=[Queue(name="slow")])
    assert "quarterjack-worker-slow" in functions(Template.from_stack(stack))


@pytest.mark.parametrize(
    ("knobs", "field"),
    [
        ({"queues": [Queue(name="a"), Queue(name="a", memory=1024)]}, "queues"),
        ({"prefix": "a" * 40, "queues": [Queue(name="b" * 18)]}, "queues"),
        ({"prefix": "acme-work"}, "prefix"),
        ({"prefix": "acme-work-2"}, "prefix"),
    ],
)
def test_a_bad_knob_is_refused_with_its_remedy(stack: Stack, knobs: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Quarterjack(stack, "Jobs", jobs=JOBS, **knobs)
    assert (refusal.value.field, bool(refusal.value.remedy)) == (field, True)


@pytest.mark.parametrize("number", [-1, 1001])
def test_so_many_provisioned_functions_are_refused(stack: Stack, number: int) -> None:
    with pytest.raises(InvalidInput, match="provisioned_concurrency"):
        Quarterjack(stack, "Jobs", jobs=JOBS, provisioned_concurrency=number)
    with pytest.raises(InvalidInput, match="provisioned_concurrency"):
        Queue(name="exact", provisioned_concurrency=number)
