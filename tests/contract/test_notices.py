"""Notices to topics, on moto and the local cloud: what subscribers get."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from minutehand.domain.notice import Notice, NoticeKind
from minutehand.errors import MinutehandError

from tests.support.engines import Engine

NOTICE = Notice(
    kind=NoticeKind.FAILURE,
    tenant="acme",
    schedule="reports/daily",
    job="report",
    incident="failure-1",
    began="2026-05-04T12:00:00.000Z",
    at="2026-05-04T12:00:00.000Z",
    count=1,
    text="acme/reports/daily fails: ünsäglich.",
    run="acme/reports/daily#000001777896000000",
)


def clients(engine: Engine) -> tuple[Any, Any]:
    """Raw clients of SNS and SQS."""
    if engine.settings is None:
        pytest.skip("topics in memory have no subscribers: the harness shows what was published")
    where = {"endpoint_url": engine.settings.endpoint, "region_name": engine.settings.region}
    return boto3.client("sns", **where), boto3.client("sqs", **where)


def a_topic(engine: Engine, suffix: str = "", **attributes: str) -> tuple[str, Any]:
    """A topic, and what its one subscriber has got."""
    sns, sqs = clients(engine)
    assert engine.settings is not None
    name = f"{engine.settings.prefix}-incidents{suffix}"
    topic = sns.create_topic(Name=name, Attributes=attributes)["TopicArn"]
    url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

    def got() -> list[dict[str, Any]]:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        return [json.loads(message["Body"]) for message in answer.get("Messages", [])]

    return topic, got


def test_a_subscriber_gets_the_document_and_what_to_filter_by(engine: Engine) -> None:
    topic, got = a_topic(engine)
    engine.services.notices.publish(topic, NOTICE)
    (letter,) = got()
    assert json.loads(letter["Message"]) == NOTICE.document()
    assert letter["Subject"] == "acme/reports/daily fails"
    said = {name: attribute["Value"] for name, attribute in letter["MessageAttributes"].items()}
    assert said == {"kind": "failure", "tenant": "acme", "schedule": "reports/daily", "job": "report"}


def test_a_fifo_topic_leaves_out_what_is_repeated(engine: Engine) -> None:
    topic, got = a_topic(engine, ".fifo", FifoTopic="true", FifoQueue="true")
    for _ in range(2):
        engine.services.notices.publish(topic, NOTICE)
    assert len(got()) == 1


def test_a_topic_that_is_not_there_is_an_error_of_its_own(engine: Engine) -> None:
    topic, got = a_topic(engine)
    with pytest.raises(MinutehandError):
        engine.services.notices.publish(topic + "-gone", NOTICE)
    assert got() == []
