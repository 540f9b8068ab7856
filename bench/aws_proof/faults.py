"""A table that throttles and a queue that takes no messages: fires come late, and none is lost."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.aws_proof.acceptance import judge_fires
from bench.aws_proof.cloud import Cloud, Names, if_there
from bench.aws_proof.deployment import Deployment
from bench.aws_proof.load import Fires, put_on, wait_for_end, wait_for_witness, wait_until
from bench.aws_proof.plan import Plan
from bench.aws_proof.report import Finding, judged, skipped
from bench.observed.figures import MS

THROTTLED, CUT = "throttled", "queue-outage"
SENDERS = ("ticker", "worker")
POLICY = "proof-outage"
LATE = 180.0  # seconds by which CloudWatch's figures may be late
_LOOK = 10.0
_NO_LIMIT = -1
_DENIED = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Deny", "Action": "sqs:SendMessage*", "Resource": "*"}],
}


def throttled_table(deployment: Deployment, plan: Plan) -> Finding:
    """The table of runs takes a few writes a second for the minute of fires and half a minute more."""
    if not deployment.cloud.is_aws:
        return skipped(f"fires, {THROTTLED}", "the embedded cloud does not throttle; `make chaos` injects throttling")
    since = time.time() * MS
    table = deployment.settings.table("runs")
    load = put_on(deployment, _fires(THROTTLED, plan))
    with _limited(deployment.cloud, table, plan.throttled):
        wait_until(load.last + 30 * MS)
    wait_for_end(deployment, [load], plan.patience)
    began = wait_for_witness(deployment, len(load.fires), since=since, of=load.name, patience=plan.patience)
    deadline = time.monotonic() + LATE
    while not (events := throttle_events(deployment.cloud, table, since)) and time.monotonic() < deadline:
        threading.Event().wait(_LOOK)
    says = f"; {plan.throttled} write units a second, {events:.0f} throttled requests"
    found = judge_fires(THROTTLED, load, began, says=says, may_repeat=True)
    return found if events else replace(found, says=f"{found.says}: AWS reported no throttling, so this shows little")


@contextmanager
def _limited(cloud: Cloud, table: str, units: int) -> Iterator[None]:
    """The table's maximum of on-demand write units a second, for the time of the block."""
    dynamodb = cloud.client("dynamodb")

    def limit(to: int) -> None:
        dynamodb.get_waiter("table_exists").wait(TableName=table)
        dynamodb.update_table(TableName=table, OnDemandThroughput={"MaxWriteRequestUnits": to})
        dynamodb.get_waiter("table_exists").wait(TableName=table, WaiterConfig={"Delay": 3, "MaxAttempts": 60})

    try:
        limit(units)
        yield
    finally:
        limit(_NO_LIMIT)


def throttle_events(cloud: Cloud, table: str, since: float) -> float:
    """Throttled writes of a table since then (UTC ms), by CloudWatch."""
    answer = cloud.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/DynamoDB",
        MetricName="WriteThrottleEvents",
        Dimensions=[{"Name": "TableName", "Value": table}],
        StartTime=datetime.fromtimestamp(since / MS, UTC) - timedelta(minutes=1),
        EndTime=datetime.now(UTC) + timedelta(minutes=1),
        Period=60,
        Statistics=["Sum"],
    )
    return sum(float(point["Sum"]) for point in answer["Datapoints"])


def queue_outage(deployment: Deployment, plan: Plan) -> Finding:
    """A policy forbids ticker and worker to send for the first part of the minute of fires."""
    since = time.time() * MS
    with denied(deployment.cloud, deployment.names):
        threading.Event().wait(plan.policy)
        load = put_on(deployment, _fires(CUT, plan))
        wait_until(load.first + plan.outage * MS)
        early = wait_for_witness(deployment, 1, since=since, of=load.name, patience=3)
    deployment.tick()
    wait_for_end(deployment, [load], plan.patience)
    began = wait_for_witness(deployment, len(load.fires), since=since, of=load.name, patience=plan.patience)
    found = judge_fires(CUT, load, began, says=f"; sending was forbidden until {plan.outage:.0f} s after the first")
    if early:
        return judged(found.part, [f"{len(early)} began although sending was forbidden"], found.says)
    return found


def _fires(name: str, plan: Plan) -> Fires:
    return Fires(name=name, number=plan.schedules, every=plan.every, lead=plan.lead, threads=plan.threads)


@contextmanager
def denied(cloud: Cloud, names: Names) -> Iterator[None]:
    """For the time of the block the senders may not send."""
    try:
        for role in senders_of(cloud, names):
            cloud.client("iam").put_role_policy(RoleName=role, PolicyName=POLICY, PolicyDocument=json.dumps(_DENIED))
        yield
    finally:
        lift(cloud, names)


def lift(cloud: Cloud, names: Names) -> None:
    """End the outage, also one that an earlier process left: a role with a foreign policy could not be deleted."""
    iam = cloud.client("iam")
    for role in senders_of(cloud, names):
        with if_there():
            iam.delete_role_policy(RoleName=role, PolicyName=POLICY)


def senders_of(cloud: Cloud, names: Names) -> list[str]:
    """The roles of the functions that send, as far as these are there."""
    found: list[Any] = []
    for part in SENDERS:
        with if_there():
            of = cloud.client("lambda").get_function_configuration(FunctionName=f"{names.prefix}-{part}")
            found.append(of["Role"].rpartition("/")[2])
    return found
