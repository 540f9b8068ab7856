"""Topics of an engine, and what their subscribers get."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest

from tests.support.engines import Engine


def clients(engine: Engine) -> tuple[Any, Any]:
    """Raw clients of SNS and SQS."""
    if engine.settings is None:
        pytest.skip("topics in memory have no subscribers: the harness shows what was published")
    where = {"endpoint_url": engine.settings.endpoint, "region_name": engine.settings.region}
    return boto3.client("sns", **where), boto3.client("sqs", **where)


def a_topic(engine: Engine, *, fifo: bool = False) -> tuple[str, Any]:
    """A topic, and what its one subscriber has got."""
    sns, sqs = clients(engine)
    assert engine.settings is not None
    name = f"{engine.settings.prefix}-incidents{'.fifo' if fifo else ''}"
    topic = sns.create_topic(Name=name, Attributes={"FifoTopic": "true"} if fifo else {})["TopicArn"]
    url = sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"} if fifo else {})["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

    def got() -> list[dict[str, Any]]:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        return [json.loads(message["Body"]) for message in answer.get("Messages", [])]

    return topic, got
