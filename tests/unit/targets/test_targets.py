"""Ready jobs that call AWS resources, against the local cloud."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import botocore.session
import pytest
from quarterjack import Registry
from quarterjack.errors import InvalidInput
from quarterjack.ready_jobs import targets
from quarterjack.ready_jobs.targets import can_call, target_job
from quarterjack.sdk.views import Run
from quarterjack.settings import Settings
from quarterjack.testing import Harness

from tests.support.command_line import environment

pytestmark = pytest.mark.cloud

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


@pytest.fixture
def region(local_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The local cloud is where AWS would be."""
    for name, value in environment(local_settings).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(targets, "_clients", {})
    assert local_settings.region is not None
    yield local_settings.region
    for client in targets._clients.values():
        client.close()


@pytest.fixture
def aws(region: str) -> Iterator[Any]:
    made = []

    def client(service: str) -> Any:
        made.append(botocore.session.get_session().create_client(service, region_name=region))
        return made[-1]

    yield client
    for one in made:
        one.close()


def queue(sqs: Any, name: str, **attributes: str) -> tuple[str, str]:
    """URL and ARN of a new queue."""
    url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return url, sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


def received(sqs: Any, url: str) -> list[str]:
    found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=2).get("Messages", [])
    return [message["Body"] for message in found]


def ran(arn: str, payload: Any, times: int = 1, **parameters: str) -> Run:
    """The run of a job that calls a target; its function is called so often."""
    jobs = Registry()
    call = target_job("t", arn, parameters=parameters, registry=jobs)

    def repeated(ctx: Any, given: Any) -> Any:
        return [call(ctx, given) for _ in range(times)][-1]

    again = Registry()
    again.job("t")(repeated)
    harness = Harness(again, at=NOON)
    harness.scheduler.submit("t", payload, idempotency_key="once")
    (run,) = harness.advance()
    assert run.state == "SUCCEEDED", run.failed_attempts
    return run


def test_a_queue_gets_a_text_as_it_is_and_anything_else_as_json(aws: Any) -> None:
    sqs = aws("sqs")
    url, arn = queue(sqs, "orders")
    ran(arn, "plain text")
    assert received(sqs, url) == ["plain text"]
    ran(arn, {"at": "<aws.scheduler.scheduled-time>", "try": "<aws.scheduler.attempt-number>"})
    (body,) = received(sqs, url)
    assert json.loads(body) == {"at": "2026-05-04T12:00:00Z", "try": "1"}
    ran(arn, None)
    assert received(sqs, url) == ["{}"]


def test_a_fifo_queue_gets_a_repeated_attempt_once(aws: Any) -> None:
    sqs = aws("sqs")
    url, arn = queue(sqs, "orders.fifo", FifoQueue="true")
    ran(arn, "x", times=3, MessageGroupId="g")
    assert received(sqs, url) == ["x"]


def test_a_topic_passes_it_on(aws: Any) -> None:
    sqs, sns = aws("sqs"), aws("sns")
    url, arn = queue(sqs, "mail")
    topic = sns.create_topic(Name="greetings")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true"})
    ran(topic, {"hello": "there"})
    assert [json.loads(body) for body in received(sqs, url)] == [{"hello": "there"}]


def test_a_state_machine_is_started_once_by_a_repeated_attempt(aws: Any) -> None:
    states = aws("stepfunctions")
    definition = json.dumps({"StartAt": "a", "States": {"a": {"Type": "Wait", "Seconds": 60, "End": True}}})
    role = "arn:aws:iam::000000000000:role/r"
    arn = states.create_state_machine(name="clean", definition=definition, roleArn=role)["stateMachineArn"]
    run = ran(arn, {"a": 1}, times=2)
    executions = states.list_executions(stateMachineArn=arn)["executions"]
    assert [one["executionArn"] for one in executions] == [run.result]


def test_a_bus_and_a_stream_take_what_they_need_beside(aws: Any, region: str) -> None:
    bus = f"arn:aws:events:{region}:000000000000:event-bus/default"
    assert ran(bus, {"a": 1}, Source="acme", DetailType="tick").result
    kinesis = aws("kinesis")
    kinesis.create_stream(StreamName="ticks", ShardCount=1)
    arn = kinesis.describe_stream_summary(StreamName="ticks")["StreamDescriptionSummary"]["StreamARN"]
    assert ran(arn, "x", PartitionKey="p").result


def test_a_target_that_is_not_there_is_a_failed_attempt(aws: Any, region: str) -> None:
    jobs = Registry()
    target_job("t", f"arn:aws:sqs:{region}:000000000000:nowhere", registry=jobs)
    harness = Harness(jobs, at=NOON)
    harness.scheduler.submit("t", "x")
    (run,) = harness.advance(hours=1)
    assert run.state == "DEAD"
    assert "does not exist" in harness.scheduler.get_run(run.id).failed_attempts[0].error


@pytest.mark.parametrize("arn", ["", "orders", "arn:aws:ec2:eu-central-1:1:instance/i", 5])
def test_what_cannot_be_called_is_refused_when_it_is_declared(arn: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^arn="):
        target_job("t", arn, registry=Registry())
    assert not can_call(str(arn))
