"""Provisioning creates what the definitions say, once, on any endpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from moto import mock_aws
from quarterjack.local.installation import create_bucket, create_queues, create_tables, provision
from quarterjack.settings import Settings
from quarterjack.sqs.routing import QUEUES, WORK
from quarterjack.stores.tables import RUNS, TABLES
from quarterjack.testing.cloud import fresh_settings


@pytest.fixture(params=["local cloud", "moto"])
def settings(request: pytest.FixtureRequest) -> Any:
    if request.param == "local cloud":
        yield fresh_settings(request.getfixturevalue("local_cloud"))
    else:
        with mock_aws():
            yield Settings(prefix="on-moto", region="eu-west-1", bucket="on-moto-payloads")


def client(settings: Settings, service: str) -> Any:
    return boto3.client(service, endpoint_url=settings.endpoint, region_name=settings.region)


def test_everything_is_there_and_repeating_it_changes_nothing(settings: Settings) -> None:
    provision(settings)
    dynamodb, sqs = client(settings, "dynamodb"), client(settings, "sqs")
    dynamodb.put_item(TableName=settings.table("runs"), Item={"owner": {"S": "a/b"}, "key": {"S": "1"}})
    provision(settings)
    for table in TABLES:
        found = dynamodb.describe_table(TableName=settings.table(table.suffix))["Table"]
        assert [key["AttributeName"] for key in found["KeySchema"]] == [table.hash_key, table.range_key]
    expiry = dynamodb.describe_time_to_live(TableName=settings.table("runs"))["TimeToLiveDescription"]
    assert expiry == {"AttributeName": RUNS.ttl, "TimeToLiveStatus": "ENABLED"}
    assert dynamodb.scan(TableName=settings.table("runs"))["Count"] == 1
    for queue in QUEUES:
        url = sqs.get_queue_url(QueueName=settings.queue(queue.suffix))["QueueUrl"]
        attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert attributes["VisibilityTimeout"] == str(queue.visibility)
        assert ("RedrivePolicy" in attributes) is (queue.dead_letters is not None)
    assert settings.bucket in {bucket["Name"] for bucket in client(settings, "s3").list_buckets()["Buckets"]}


def test_only_the_table_of_runs_has_a_stream_with_both_images(settings: Settings) -> None:
    provision(settings)
    assert streams(settings) == {settings.table("runs"): "NEW_AND_OLD_IMAGES"}


def test_the_stream_of_an_existing_table_is_switched_on_and_off_as_the_settings_say(settings: Settings) -> None:
    without = replace(settings, prefix=f"{settings.prefix}-plain", history=False)
    provision(without)
    assert streams(without) == {}
    provision(replace(without, history=True))
    arn = stream_arn(without)
    provision(replace(without, history=True))
    assert streams(without) == {without.table("runs"): "NEW_AND_OLD_IMAGES"}
    assert stream_arn(without) == arn  # another one would have lost the changes
    provision(without)
    assert streams(without) == {}


def streams(settings: Settings) -> dict[str, str]:
    """The kind of stream of each table that has one."""
    dynamodb = client(settings, "dynamodb")
    names = [settings.table(table.suffix) for table in TABLES]
    found = {name: dynamodb.describe_table(TableName=name)["Table"].get("StreamSpecification", {}) for name in names}
    return {name: each["StreamViewType"] for name, each in found.items() if each.get("StreamEnabled")}


def stream_arn(settings: Settings) -> Any:
    return client(settings, "dynamodb").describe_table(TableName=settings.table("runs"))["Table"]["LatestStreamArn"]


def test_a_queue_of_an_earlier_release_gets_todays_attributes(settings: Settings) -> None:
    other = replace(settings, prefix=f"{settings.prefix}-older")
    sqs = client(other, "sqs")
    url = sqs.create_queue(QueueName=other.queue("work"), Attributes={"VisibilityTimeout": "30"})["QueueUrl"]
    assert create_queues(sqs, other)["work"] == url
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])["Attributes"]
    assert attributes["VisibilityTimeout"] == str(WORK.visibility)


def test_without_a_bucket_none_is_created(settings: Settings) -> None:
    provision(replace(settings, prefix=f"{settings.prefix}-small", bucket=None))
    names = {bucket["Name"] for bucket in client(settings, "s3").list_buckets()["Buckets"]}
    assert not any(name.startswith(f"{settings.prefix}-small") for name in names)


@pytest.mark.parametrize(
    ("service", "operation", "create"),
    [
        ("dynamodb", "create_table", lambda client: create_tables(client, Settings())),
        ("sqs", "create_queue", lambda client: create_queues(client, Settings())),
        ("s3", "create_bucket", lambda client: create_bucket(client, "payloads")),
    ],
)
def test_a_refusal_is_passed_on(service: str, operation: str, create: Callable[[Any], None]) -> None:
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    client = boto3.client(service, region_name="eu-west-1", **keys)
    refusing = Stubber(client)
    refusing.add_client_error(operation, "AccessDenied")
    with refusing, pytest.raises(ClientError, match="AccessDenied"):
        create(client)
