"""What it has cost: units counted by CloudWatch, at the one table of prices. The account's bill has the same units."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from quarterjack.stores.tables import TABLES

from bench.aws_proof.cloud import Cloud
from bench.aws_proof.deployment import Deployment
from bench.aws_proof.faults import LATE
from bench.aws_proof.report import Finding, Verdict, skipped
from bench.modelled.prices import GB_SECOND, INVOCATION, LOGS, MILLION, READ, SQS, WRITE

PART = "cost, counted"
FUNCTIONS = ("ticker", "worker", "undertaker", "auditor", "historian")
_MESSAGES = ("NumberOfMessagesSent", "NumberOfMessagesReceived", "NumberOfMessagesDeleted", "NumberOfEmptyReceives")


@dataclass(frozen=True, kw_only=True)
class Counted:
    """One metric, and what its units cost."""

    what: str
    namespace: str
    metric: str
    dimension: tuple[str, str]
    dollars: float  # of one unit of the metric

    def query(self, number: int) -> dict[str, Any]:
        name, value = self.dimension
        metric = {
            "Namespace": self.namespace,
            "MetricName": self.metric,
            "Dimensions": [{"Name": name, "Value": value}],
        }
        return {"Id": f"m{number}", "MetricStat": {"Metric": metric, "Period": 300, "Stat": "Sum"}}


def counted(deployment: Deployment, *, since: datetime, runs: int, wait: float = LATE) -> Finding:
    """Sums since then of all that is billed by use. ``runs``: to tell what a million would have cost."""
    if not deployment.cloud.is_aws:
        return skipped(
            PART, "the embedded cloud keeps no CloudWatch metrics of tables, queues and functions, and sends no bill"
        )
    threading.Event().wait(wait)
    return priced(list(_counters(deployment)), deployment.cloud, since=since, runs=runs)


def priced(counters: list[Counted], cloud: Cloud, *, since: datetime, runs: int) -> Finding:
    """A row for each, and the sum."""
    sums = _sums(cloud, counters, since)
    rows = [
        {"what": counter.what, "units": round(amount), "dollars": round(amount * counter.dollars, 4)}
        for counter, amount in zip(counters, sums, strict=True)
        if amount
    ]
    dollars = sum(amount * counter.dollars for counter, amount in zip(counters, sums, strict=True))
    if not rows:
        return skipped(PART, "CloudWatch has no figures for this installation")
    says = f"${dollars:.2f} for {runs:,} runs, ${dollars / max(runs, 1) * MILLION:.2f} a million; alarms, metrics, storage not counted"
    return Finding(part=PART, verdict=Verdict.HELD, says=says, rows=rows)


def _counters(deployment: Deployment) -> Iterator[Counted]:
    of = deployment.settings
    for table in TABLES:
        for metric, price in (("ConsumedWriteCapacityUnits", WRITE), ("ConsumedReadCapacityUnits", READ)):
            name = of.table(table.suffix)
            yield Counted(
                what=f"{name} {metric}",
                namespace="AWS/DynamoDB",
                metric=metric,
                dimension=("TableName", name),
                dollars=price.dollars,
            )
    urls = deployment.cloud.client("sqs").list_queues(QueueNamePrefix=f"{of.prefix}-").get("QueueUrls", ())
    for name in (url.rpartition("/")[2] for url in urls):
        for metric in _MESSAGES:  # a request takes up to ten messages: each is counted as one, which is too much
            yield Counted(
                what=f"{name} {metric}",
                namespace="AWS/SQS",
                metric=metric,
                dimension=("QueueName", name),
                dollars=SQS.dollars,
            )
    yield from _of_functions(deployment)


def _of_functions(deployment: Deployment) -> Iterator[Counted]:
    for part in FUNCTIONS:
        name = deployment.function(part)
        memory = deployment.cloud.client("lambda").get_function_configuration(FunctionName=name)["MemorySize"]
        for metric, dollars in (
            ("Invocations", INVOCATION.dollars),
            ("Duration", memory / 1024 / 1e3 * GB_SECOND.dollars),
        ):
            yield Counted(
                what=f"{name} {metric}",
                namespace="AWS/Lambda",
                metric=metric,
                dimension=("FunctionName", name),
                dollars=dollars,
            )
        yield Counted(
            what=f"{name} bytes of log",
            namespace="AWS/Logs",
            metric="IncomingBytes",
            dimension=("LogGroupName", f"/aws/lambda/{name}"),
            dollars=LOGS.dollars / 1e9,
        )


def _sums(cloud: Cloud, counters: list[Counted], since: datetime) -> list[float]:
    paginator = cloud.client("cloudwatch").get_paginator("get_metric_data")
    pages = paginator.paginate(
        MetricDataQueries=[counter.query(number) for number, counter in enumerate(counters)],
        StartTime=since - timedelta(minutes=5),
        EndTime=datetime.now(UTC) + timedelta(minutes=5),
    )
    sums = [0.0] * len(counters)
    for page in pages:
        for result in page["MetricDataResults"]:
            sums[int(result["Id"][1:])] += sum(result["Values"])
    return sums
