"""An alarm that is provoked arrives: CloudWatch, the topic and its policy, and a subscriber."""

from __future__ import annotations

import json
import time
from typing import Any

from bench.aws_proof.deployment import Deployment
from bench.aws_proof.plan import Plan
from bench.aws_proof.report import Finding, judged, skipped

PART = "an alarm arrives"
PROVOKED = "dead-runs"  # a run has ended DEAD


def listen(deployment: Deployment) -> None:
    """Subscribe a queue of our own to the topic of the alarms, before anything goes wrong."""
    if deployment.topic is None:
        return
    sqs, sns = deployment.cloud.client("sqs"), deployment.cloud.client("sns")
    url = sqs.create_queue(QueueName=deployment.names.heard)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(_policy(arn, deployment.topic))})
    sns.subscribe(TopicArn=deployment.topic, Protocol="sqs", Endpoint=arn)


def arrived(deployment: Deployment, plan: Plan) -> Finding:
    """Whether the alarm of dead runs reached the queue; one run was doomed at the beginning."""
    if not deployment.cloud.is_aws:
        return skipped(PART, "the embedded cloud makes no metrics of functions' log lines, so that no alarm goes off")
    sqs, wanted = deployment.cloud.client("sqs"), f"{deployment.names.prefix}-{PROVOKED}"
    url = sqs.get_queue_url(QueueName=deployment.names.heard)["QueueUrl"]
    heard, deadline = list[str](), time.monotonic() + plan.alarm_patience
    while f"{wanted}: ALARM" not in heard and time.monotonic() < deadline:
        received = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20, MaxNumberOfMessages=10).get("Messages", ())
        heard += [alarm_in(message["Body"]) for message in received]
        for message in received:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    wrong = [f"{wanted} did not arrive within {plan.alarm_patience:.0f} s"] * (f"{wanted}: ALARM" not in heard)
    return judged(PART, wrong, f"arrived: {', '.join(dict.fromkeys(heard)) or 'nothing'}")


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
