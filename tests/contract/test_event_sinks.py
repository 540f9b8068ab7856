"""Events to a bus and to topics, on moto and the local cloud: what receivers get."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from quarterjack.domain.history.outgoing_event import OutgoingEvent, parse_target
from quarterjack.domain.run import RunState
from quarterjack.errors import QuarterjackError
from quarterjack.historian.events import events_of
from quarterjack.ports.receivers import EventSink
from quarterjack.sqs.event_sinks import EventBridgeSink, SnsSink

from tests.support.builders import NOON, a_one_off, a_run
from tests.support.engines import Engine
from tests.support.topics import a_topic, clients
from tests.support.transitions import life


def some(count: int = 1) -> list[OutgoingEvent]:
    runs = (a_run(NOON + number) for number in range(count))
    return [event for run in runs for event in events_of(life(run, state=RunState.DEAD))]


def on_topic(engine: Engine, topic: str) -> EventSink:
    assert engine.settings is not None
    return SnsSink(parse_target(f"sns:{topic}"), engine.settings)


def test_a_topic_gets_the_document_and_what_to_filter_by(engine: Engine) -> None:
    topic, got = a_topic(engine)
    (event,) = some()
    on_topic(engine, topic).publish([event])
    (letter,) = got()
    assert json.loads(letter["Message"]) == json.loads(event.encode())
    said = {name: attribute["Value"] for name, attribute in letter["MessageAttributes"].items()}
    assert said == {"id": event.id, "type": "run.dead", "tenant": "acme", "schedule": "report", "job": "report"}


def test_a_batch_may_be_of_any_length(engine: Engine) -> None:
    topic, got = a_topic(engine)
    events = [*some(23), *events_of(life(a_one_off()))]
    on_topic(engine, topic).publish(events)
    received: list[str] = []
    while letters := got():
        received += [json.loads(letter["Message"])["id"] for letter in letters]
    assert sorted(received) == sorted(event.id for event in events)


def test_a_fifo_topic_drops_a_repetition(engine: Engine) -> None:
    topic, got = _fifo(engine)
    sink = on_topic(engine, topic)
    for _ in range(2):
        sink.publish(some(2))
    assert len(got()) == 2


def _fifo(engine: Engine) -> tuple[str, Any]:
    sns, sqs = clients(engine)
    assert engine.settings is not None
    name = f"{engine.settings.prefix}-events.fifo"
    topic = sns.create_topic(Name=name, Attributes={"FifoTopic": "true"})["TopicArn"]
    url = sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

    def got() -> list[Any]:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        return list(answer.get("Messages", []))

    return topic, got


def test_a_rule_of_a_bus_gets_the_event(engine: Engine) -> None:
    if engine.name == "moto":
        pytest.importorskip("jsonpath_ng", reason="moto's rules need it, and nothing here does")
    _, sqs = clients(engine)
    assert engine.settings is not None
    name, where = f"{engine.settings.prefix}-bus", {"endpoint_url": engine.settings.endpoint}
    events = boto3.client("events", region_name=engine.settings.region, **where)
    events.create_event_bus(Name=name)
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    pattern = json.dumps({"source": ["quarterjack"], "detail-type": ["run.dead"]})
    events.put_rule(Name="dead", EventBusName=name, EventPattern=pattern)
    events.put_targets(Rule="dead", EventBusName=name, Targets=[{"Id": "1", "Arn": arn}])
    (event,), succeeded = some(), list(events_of(life(a_run(NOON + 9))))
    EventBridgeSink(parse_target(f"eventbridge:{name}"), engine.settings).publish([event, *succeeded])
    answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=2)
    (letter,) = [json.loads(message["Body"]) for message in answer["Messages"]]
    assert (letter["source"], letter["detail-type"]) == ("quarterjack", "run.dead")
    assert letter["detail"] == json.loads(event.encode())


def test_a_target_that_is_not_there_is_an_error(engine: Engine) -> None:
    clients(engine)
    assert engine.settings is not None
    with pytest.raises(QuarterjackError):
        on_topic(engine, f"arn:aws:sns:{engine.settings.region}:123456789012:nobody").publish(some())
