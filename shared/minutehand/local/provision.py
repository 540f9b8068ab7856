"""Create tables, queues and bucket from the definitions that the CDK stack uses, too.

It works on any endpoint, and repeating it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.exceptions import ClientError

from minutehand.domain.queue import Queue, striped
from minutehand.dynamodb.tables import TABLES
from minutehand.settings import Settings
from minutehand.sqs.queue_definitions import all_queues

_WAIT = {"Delay": 1, "MaxAttempts": 60}  # seconds between looks, looks: AWS takes some ten seconds for a table


def provision(settings: Settings, *, queues: Iterable[Queue] = ()) -> None:
    """Create tables, queues and bucket with the names of ``settings``, and the declared ``queues``. Existing ones keep their data.

    The default queue has the number of stripes that ``settings`` says.
    """
    where: dict[str, Any] = {"endpoint_url": settings.endpoint, "region_name": settings.region}
    create_tables(boto3.client("dynamodb", **where), settings)
    create_queues(boto3.client("sqs", **where), settings, queues)
    if settings.bucket is not None:
        create_bucket(boto3.client("s3", **where), settings.bucket)


def create_tables(dynamodb: Any, settings: Settings) -> None:
    """Create the four tables, wait until they are ready, and switch their expiry on."""
    for table in TABLES:
        with _allowing("ResourceInUseException"):
            dynamodb.create_table(**table.create_arguments(settings.table(table.suffix)))
    for table in TABLES:
        name = settings.table(table.suffix)
        dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig=_WAIT)
        if table.ttl is not None:
            _expire_by(dynamodb, name, table.ttl)


def create_queues(sqs: Any, settings: Settings, declared: Iterable[Queue] = ()) -> dict[str, str]:
    """Create the queues, the dead-letter queue first; returns their URLs by suffix."""
    urls: dict[str, str] = {}
    for queue in all_queues(declared, stripes=striped(settings.stripes).get(None, 1)):
        dead = urls.get(queue.dead_letters or "")
        name, attributes = settings.queue(queue.suffix), queue.attributes(_arn(sqs, dead) if dead else None)
        url = ""
        with _allowing("QueueAlreadyExists", "QueueNameExists"):
            url = str(sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])
        if not url:  # it exists with the attributes of an earlier release
            url = str(sqs.get_queue_url(QueueName=name)["QueueUrl"])
            sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)
        urls[queue.suffix] = url
    return urls


def create_bucket(s3: Any, name: str) -> None:
    region = s3.meta.region_name
    place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    with _allowing("BucketAlreadyOwnedByYou"):
        s3.create_bucket(Bucket=name, **place)


def _expire_by(dynamodb: Any, name: str, attribute: str) -> None:
    """Switch the expiry on if it is off: some emulators ignore it at creation, and AWS refuses to switch it on twice."""
    now = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    if now.get("AttributeName") != attribute or now["TimeToLiveStatus"] not in ("ENABLED", "ENABLING"):
        wanted = {"Enabled": True, "AttributeName": attribute}
        dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=wanted)


def _arn(sqs: Any, url: str) -> str:
    return str(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"])


@contextmanager
def _allowing(*codes: str) -> Iterator[None]:
    """Let the errors pass with which a service says that something exists already."""
    try:
        yield
    except ClientError as problem:
        if problem.response["Error"]["Code"].rpartition(".")[2] not in codes:
            raise
