"""Create tables, queues and bucket from the definitions that the CDK stack uses, too.

It works on any endpoint, and repeating it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import boto3
from botocore.exceptions import ClientError

from minutehand.domain.queue import Queue, striped
from minutehand.dynamodb.tables import TABLES, TableDefinition
from minutehand.settings import Settings
from minutehand.sqs.routing import SqsQueue, all_queues

_WAIT = {"Delay": 1, "MaxAttempts": 60}  # seconds between looks, looks: AWS takes some ten seconds for a table


def provision(settings: Settings, *, queues: Iterable[Queue] = ()) -> None:
    """Create tables, queues and bucket with the names of ``settings``, and the declared ``queues``. ``settings`` has the number of
    stripes of the default queue.

    Existing ones stay with their data.
    """
    where: dict[str, Any] = {"endpoint_url": settings.endpoint, "region_name": settings.region}
    create_tables(boto3.client("dynamodb", **where), settings)
    create_queues(boto3.client("sqs", **where), settings, queues)
    if settings.bucket is not None:
        create_bucket(boto3.client("s3", **where), settings.bucket)


def create_tables(dynamodb: Any, settings: Settings) -> None:
    """Create the four tables, wait until they are ready, and switch their expiry on."""
    for table in TABLES:
        _create_table(dynamodb, table, settings.table(table.suffix))
    for table in TABLES:
        name = settings.table(table.suffix)
        dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig=_WAIT)
        if table.ttl is not None:
            _expire_by(dynamodb, name, table.ttl)


def create_queues(sqs: Any, settings: Settings, declared: Iterable[Queue] = ()) -> dict[str, str]:
    """Create the queues, the dead-letter queue first; returns their URLs by suffix."""
    urls: dict[str, str] = {}
    for queue in all_queues(declared, stripes=striped(settings.stripes).get(None, 1)):
        dead = None if queue.dead_letters is None else _arn(sqs, urls[queue.dead_letters])
        urls[queue.suffix] = _create_queue(sqs, queue, settings.queue(queue.suffix), dead)
    return urls


def create_bucket(s3: Any, name: str) -> None:
    """Create the bucket of large payloads and results."""
    region = s3.meta.region_name
    place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    try:
        s3.create_bucket(Bucket=name, **place)
    except ClientError as problem:
        if _code(problem) != "BucketAlreadyOwnedByYou":
            raise


def _create_table(dynamodb: Any, table: TableDefinition, name: str) -> None:
    try:
        dynamodb.create_table(**table.create_arguments(name))
    except ClientError as problem:
        if _code(problem) != "ResourceInUseException":
            raise


def _expire_by(dynamodb: Any, name: str, attribute: str) -> None:
    """Switch the expiry on if it is off: some emulators ignore it at creation, and AWS refuses to switch it on twice."""
    now = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    if now.get("AttributeName") != attribute or now["TimeToLiveStatus"] not in ("ENABLED", "ENABLING"):
        wanted = {"Enabled": True, "AttributeName": attribute}
        dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=wanted)


def _create_queue(sqs: Any, queue: SqsQueue, name: str, dead_letter_arn: str | None) -> str:
    attributes = queue.attributes(dead_letter_arn)
    try:
        return str(sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])
    except ClientError as problem:
        if _code(problem) not in ("QueueAlreadyExists", "QueueNameExists"):
            raise
    url = str(sqs.get_queue_url(QueueName=name)["QueueUrl"])  # it exists with the attributes of an earlier release
    sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)
    return url


def _arn(sqs: Any, url: str) -> str:
    return str(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"])


def _code(problem: ClientError) -> str:
    return str(problem.response.get("Error", {}).get("Code", "")).rpartition(".")[2]
