"""Incidents with real processes on the local cloud: a topic is told, the schedule is paused, and all of it is over again."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from quarterjack import ScheduleState

from tests.support.installation.scene import UNDERTAKER, Scene, ticker, until, worker

pytestmark = [pytest.mark.check, pytest.mark.cloud]


def a_topic(scene: Scene) -> tuple[str, Any]:
    """A topic, and what its subscriber has got so far."""
    where = {"endpoint_url": scene.settings.endpoint, "region_name": scene.settings.region}
    sns, sqs, name = boto3.client("sns", **where), boto3.client("sqs", **where), f"{scene.settings.prefix}-incidents"
    topic = sns.create_topic(Name=name)["TopicArn"]
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true"})
    got: list[dict[str, Any]] = []

    def so_far() -> list[dict[str, Any]]:
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
            got.append(json.loads(message["Body"]))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return got

    return topic, so_far


def test_a_schedule_fails_is_paused_and_recovers(scene: Scene) -> None:
    topic, told = a_topic(scene)
    owner, hopeless = scene.scheduler, {"to": scene.to, "failures": 99}
    owner.create_schedule(
        "daily", "test.fail", "0 0 1 1 *", payload=hopeless, on_failure=topic, on_recovery=topic, pause_on_failure=2
    )
    scene.start(worker(), UNDERTAKER, ticker(period=1))
    owner.trigger("daily")
    assert until(lambda: len(told()) == 1, 60), scene.logs()
    owner.trigger("daily")
    assert until(lambda: owner.get_schedule("daily").state is ScheduleState.PAUSED, 60), scene.logs()
    assert until(lambda: len(told()) == 2, 60), scene.logs()
    assert [schedule.name for schedule in owner.list_schedules(failing=True).items] == ["daily"]
    owner.resume_schedule("daily")
    owner.trigger("daily", payload={"to": scene.to, "failures": 0})
    assert until(lambda: len(told()) == 3, 60), scene.logs()
    assert [notice["kind"] for notice in told()] == ["failure", "paused", "recovery"]
    assert len({notice["incident"] for notice in told()}) == 1
    daily = owner.get_schedule("daily")
    assert (daily.failing, daily.incident, daily.state) == (0, None, ScheduleState.ACTIVE)
    assert len(owner.list_dead(schedule="daily").items) == 2


def test_what_expires_is_listed_and_told(scene: Scene) -> None:
    topic, told = a_topic(scene)
    owner = scene.scheduler
    owner.create_schedule("daily", "test.note", "0 0 1 1 *", payload={"to": scene.to}, deadline=1, on_failure=topic)
    owner.trigger("daily")
    assert not until(lambda: bool(scene.starts()), 2.5)
    scene.start(worker(), UNDERTAKER, ticker(period=1))
    assert until(lambda: len(told()) == 1, 60), scene.logs()
    (dead,) = owner.list_dead(schedule="daily").items
    assert (dead.state, told()[0]["state"], told()[0]["run"]) == ("EXPIRED", "EXPIRED", dead.id)
    assert scene.starts() == []
