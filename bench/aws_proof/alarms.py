"""An alarm that is provoked arrives, and each that is set off by hand: CloudWatch, the topic and its policy, and a subscriber."""

from __future__ import annotations

import json
import time
from typing import Any

from bench.aws_proof.deployment import Deployment
from bench.aws_proof.plan import Plan
from bench.aws_proof.report import Finding, judged, skipped

PART = "an alarm arrives"
PROVOKED = "unreadable"  # by a message that is not ours
FOREIGN = "this is not a message of Minutehand"


def listen(deployment: Deployment) -> None:
    """Subscribe a queue of our own to the topic of the alarms, before anything goes wrong; then send what nobody can read."""
    if deployment.topic is None:
        return
    sqs, sns = deployment.cloud.client("sqs"), deployment.cloud.client("sns")
    url = sqs.create_queue(QueueName=deployment.names.heard)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(_policy(arn, deployment.topic))})
    sns.subscribe(TopicArn=deployment.topic, Protocol="sqs", Endpoint=arn)
    work = sqs.get_queue_url(QueueName=deployment.function("work"))["QueueUrl"]
    sqs.send_message(QueueUrl=work, MessageBody=FOREIGN)


def arrived(deployment: Deployment, plan: Plan) -> Finding:
    """Whether the alarm of the foreign message reached the queue, and each metric alarm that pages, once it is set off by hand.

    Composite alarms are not set off: CloudWatch computes their state anew at once.
    """
    if not deployment.cloud.is_aws:
        return skipped(PART, "the embedded cloud makes no metrics of functions' log lines, so that no alarm goes off")
    sqs, cloudwatch = deployment.cloud.client("sqs"), deployment.cloud.client("cloudwatch")
    url = sqs.get_queue_url(QueueName=deployment.names.heard)["QueueUrl"]
    heard, provoked = set[str](), f"{deployment.names.prefix}-{PROVOKED}"
    _hear(sqs, url, {provoked}, heard, plan.alarm_patience)
    late = [f"{provoked} did not arrive within {plan.alarm_patience:.0f} s"] * (provoked not in heard)
    by_hand = _set_off(cloudwatch, deployment.names.prefix) - heard
    _hear(sqs, url, by_hand, heard, plan.alarm_patience)
    late += [f"{name}, which was set off by hand, did not arrive" for name in sorted(by_hand - heard)]
    return judged(PART, late, f"arrived: {', '.join(sorted(heard)) or 'nothing'}")


def _set_off(cloudwatch: Any, prefix: str) -> set[str]:
    """Set each metric alarm that pages off; their names."""
    pages = cloudwatch.get_paginator("describe_alarms").paginate(
        AlarmNamePrefix=f"{prefix}-", AlarmTypes=["MetricAlarm"]
    )
    names = {alarm["AlarmName"] for page in pages for alarm in page["MetricAlarms"] if alarm["AlarmActions"]}
    for name in sorted(names):
        cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="make aws-proof sets it off")
    return names


def _hear(sqs: Any, url: str, wanted: set[str], heard: set[str], patience: float) -> None:
    """Add the alarms that begin to ``heard``, until all that are wanted have been heard, or it takes too long."""
    deadline = time.monotonic() + patience
    while wanted - heard and time.monotonic() < deadline:
        for message in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20, MaxNumberOfMessages=10).get(
            "Messages", ()
        ):
            name, _, state = alarm_in(message["Body"]).partition(": ")
            heard |= {name} if state == "ALARM" else set()
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


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
