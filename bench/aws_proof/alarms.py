"""An alarm that is provoked arrives, and every other goes off when it is set off: CloudWatch, the topic and its policy, a subscriber."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bench.aws_proof.cloud import if_there
from bench.aws_proof.deployment import Deployment
from bench.aws_proof.plan import Plan
from bench.aws_proof.report import Finding, judged, skipped

PART = "an alarm arrives"
NO_ALARMS = "the embedded cloud makes no metrics of functions' log lines, so that no alarm goes off"
PROVOKED = "unreadable"  # by a message that is not ours
PAUSE = 5.0  # seconds between two looks at the histories: CloudWatch has no way to wait for a change
_PART_OF_RULE = re.compile(r'ALARM\("([^"]+)"\)')  # of the rule of a composite alarm: a name or an ARN
FOREIGN = "this is not a message of Quarterjack"


@dataclass(kw_only=True)
class Listener:
    """The queue that hears the alarms, and those that it has heard. Messages are read once, whichever part waits."""

    deployment: Deployment
    heard: set[str] = field(default_factory=set)  # names of alarms that went off

    def listen(self) -> None:
        """Subscribe a queue of our own to the topic of the alarms; then send what nobody can read. A second call does no harm."""
        if self.deployment.topic is None:
            return
        sqs, sns = self.deployment.cloud.client("sqs"), self.deployment.cloud.client("sns")
        url = sqs.create_queue(QueueName=self.deployment.names.heard)["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(_policy(arn, self.deployment.topic))})
        sns.subscribe(TopicArn=self.deployment.topic, Protocol="sqs", Endpoint=arn)
        work = sqs.get_queue_url(QueueName=self.deployment.function("work"))["QueueUrl"]
        sqs.send_message(QueueUrl=work, MessageBody=FOREIGN)

    def wait_for(self, wanted: set[str], patience: float) -> set[str]:
        """Those of ``wanted`` that did not go off within ``patience`` seconds."""
        sqs, url = self.deployment.cloud.client("sqs"), ""
        with if_there():
            url = sqs.get_queue_url(QueueName=self.deployment.names.heard)["QueueUrl"]
        if not url:  # listening failed at the beginning
            self.listen()
            url = sqs.get_queue_url(QueueName=self.deployment.names.heard)["QueueUrl"]
        deadline = time.monotonic() + patience
        while wanted - self.heard and time.monotonic() < deadline:
            self._receive(sqs, url)
        return wanted - self.heard

    def _receive(self, sqs: Any, url: str) -> None:
        answer = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20, MaxNumberOfMessages=10)
        for message in answer.get("Messages", ()):
            name, _, state = alarm_in(message["Body"]).partition(": ")
            self.heard |= {name} if state == "ALARM" else set()
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def arrived(listener: Listener, plan: Plan) -> Finding:
    """Whether the alarm of the foreign message reached the queue, and every other that pages went off when it was set off by hand.

    A composite alarm has no state that could be set: its parts are set. It may be hidden by another that was set off, and sends nothing
    then; so its history counts as well as its message.
    """
    deployment = listener.deployment
    if not deployment.cloud.is_aws:
        return skipped(PART, NO_ALARMS)
    cloudwatch = deployment.cloud.client("cloudwatch")
    began, provoked = datetime.now(UTC), deployment.function(PROVOKED)
    silent = listener.wait_for({provoked}, plan.alarm_patience)
    late = [f"{name} did not arrive within {plan.alarm_patience:.0f} s" for name in silent]
    metric_alarms, composites = _paging(cloudwatch, deployment.names.prefix)
    by_hand = metric_alarms - listener.heard - {provoked}
    _set_off(cloudwatch, by_hand)
    silent = listener.wait_for(by_hand, plan.alarm_patience)
    late += [f"{name}, which was set off by hand, did not arrive" for name in sorted(silent)]
    still = _composites_set_off(cloudwatch, composites, began, plan.alarm_patience)
    late += [f"{name} did not go off, although its parts were set off by hand" for name in still]
    went_off = listener.heard | (composites.keys() - set(still))
    return judged(PART, late, f"went off: {', '.join(sorted(went_off)) or 'nothing'}")


def _paging(cloudwatch: Any, prefix: str) -> tuple[set[str], dict[str, list[str]]]:
    """The names of the metric alarms that page, and the names of the parts of each composite alarm that pages."""
    pages = cloudwatch.get_paginator("describe_alarms").paginate(
        AlarmNamePrefix=f"{prefix}-", AlarmTypes=["MetricAlarm", "CompositeAlarm"]
    )
    metric_alarms, composites = set[str](), dict[str, list[str]]()
    for page in pages:
        metric_alarms |= {alarm["AlarmName"] for alarm in page["MetricAlarms"] if alarm["AlarmActions"]}
        composites |= {
            alarm["AlarmName"]: [part.rpartition(":")[2] for part in _PART_OF_RULE.findall(alarm["AlarmRule"])]
            for alarm in page["CompositeAlarms"]
            if alarm["AlarmActions"]
        }
    return metric_alarms, composites


def _set_off(cloudwatch: Any, names: Iterable[str]) -> None:
    """CloudWatch takes the state back with the next evaluation of the metric."""
    for name in sorted(names):
        cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="make aws-proof sets it off")


def _composites_set_off(
    cloudwatch: Any, composites: Mapping[str, list[str]], since: datetime, patience: float
) -> list[str]:
    """Set the parts of each off, until its history says that it went off; the names of those that never did."""
    deadline = time.monotonic() + patience
    silent = sorted(composites)
    while True:
        _set_off(cloudwatch, {part for name in silent for part in composites[name]})
        silent = [name for name in silent if not _went_off(cloudwatch, name, since)]
        if not silent or time.monotonic() >= deadline:
            return silent
        time.sleep(PAUSE)


def _went_off(cloudwatch: Any, name: str, since: datetime) -> bool:
    """Whether the history of a composite alarm has a change to ALARM."""
    history = cloudwatch.describe_alarm_history(
        AlarmName=name, AlarmTypes=["CompositeAlarm"], HistoryItemType="StateUpdate", StartDate=since
    )
    changes = (json.loads(item["HistoryData"]) for item in history["AlarmHistoryItems"])
    return any(change["newState"]["stateValue"] == "ALARM" for change in changes)


def alarm_in(body: str) -> str:
    """``name: state`` of an alarm that SNS has brought."""
    told: dict[str, Any] = json.loads(json.loads(body)["Message"])
    return f"{told['AlarmName']}: {told['NewStateValue']}"


def _policy(queue: str, topic: str) -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue,
        "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
    }
    return {"Version": "2012-10-17", "Statement": [statement]}
