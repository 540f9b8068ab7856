"""Remove everything of a proof, found by its names alone; then look whether anything is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from bench.aws_proof.cloud import Cloud, Names
from bench.aws_proof.faults import lift

_WAIT = {"Delay": 5, "MaxAttempts": 240}  # twenty minutes: event sources and versions take their time
_LOCAL_WAIT = {"Delay": 1, "MaxAttempts": 120}
_GONE = ("ValidationError", "ResourceNotFoundException", "NoSuchBucket", "QueueDoesNotExist", "NonExistentQueue")


def remove(cloud: Cloud, names: Names, say: Callable[[str], object]) -> list[str]:
    """Remove all of it; returns what is left, with the reason where there is one. A step that fails does not keep the next from running."""
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("the outage of the queue", lambda: lift(cloud, names)),
        ("the queue that hears alarms", lambda: _remove_queue(cloud, names)),
        (f"stack {names.stack}", lambda: _remove_stack(cloud, names.stack)),
        ("log groups", lambda: _remove_logs(cloud, names)),
        (f"stack {names.toolkit}", lambda: _remove_stack(cloud, names.toolkit)),
    )
    problems = []
    for what, step in steps:
        say(f"removing {what}")
        try:
            step()
        except (ClientError, BotoCoreError) as problem:
            problems.append(f"{what}: {problem}")
    return [*problems, *left(cloud, names)]


def left(cloud: Cloud, names: Names) -> list[str]:
    """Everything that still has one of the names."""
    return [f"{kind} {name}" for kind, list_ in _LISTS.items() for name in list_(cloud, names)]


def _remove_stack(cloud: Cloud, stack: str) -> None:
    """Its buckets are emptied first, and those that it retains are deleted after it."""
    formation = cloud.client("cloudformation")
    try:
        resources = formation.describe_stack_resources(StackName=stack)["StackResources"]
    except ClientError as problem:
        if _code(problem) in _GONE:
            return
        raise
    buckets = [of["PhysicalResourceId"] for of in resources if of["ResourceType"] == "AWS::S3::Bucket"]
    buckets = [bucket for bucket in buckets if bucket]
    for bucket in buckets:
        _empty(cloud, bucket)
    formation.delete_stack(StackName=stack)
    wait = _WAIT if cloud.is_aws else _LOCAL_WAIT
    formation.get_waiter("stack_delete_complete").wait(StackName=stack, WaiterConfig=wait)
    for bucket in buckets:
        with _if_there():
            _empty(cloud, bucket)
            cloud.client("s3").delete_bucket(Bucket=bucket)


def _empty(cloud: Cloud, bucket: str) -> None:
    """Delete all objects, versions and markers."""
    s3 = cloud.client("s3")
    with _if_there():
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            keys = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
            if keys:
                s3.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})


def _remove_queue(cloud: Cloud, names: Names) -> None:
    sqs = cloud.client("sqs")
    with _if_there():
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=names.heard)["QueueUrl"])


def _remove_logs(cloud: Cloud, names: Names) -> None:
    """Those that a function wrote once more after the stack had deleted them."""
    for group in _log_groups(cloud, names):
        cloud.client("logs").delete_log_group(logGroupName=group)


@contextmanager
def _if_there() -> Iterator[None]:
    """Pass over the error of what is not there any more."""
    try:
        yield
    except ClientError as problem:
        if _code(problem) not in _GONE:
            raise


def _code(problem: ClientError) -> str:
    return str(problem.response["Error"]["Code"]).rpartition(".")[2]


def _stacks(cloud: Cloud, names: Names) -> Iterator[str]:
    for stack in (names.stack, names.toolkit):
        with suppress(ClientError):
            (found,) = cloud.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
            if found["StackStatus"] != "DELETE_COMPLETE":
                yield f"{stack} ({found['StackStatus']})"


def _tables(cloud: Cloud, names: Names) -> Iterator[str]:
    for page in cloud.client("dynamodb").get_paginator("list_tables").paginate():
        yield from (name for name in page["TableNames"] if name.startswith(f"{names.prefix}-"))


def _queues(cloud: Cloud, names: Names) -> Iterator[str]:
    yield from cloud.client("sqs").list_queues(QueueNamePrefix=f"{names.prefix}-").get("QueueUrls", ())


def _functions(cloud: Cloud, names: Names) -> Iterator[str]:
    for page in cloud.client("lambda").get_paginator("list_functions").paginate():
        found = (of["FunctionName"] for of in page["Functions"])
        yield from (name for name in found if name.startswith(f"{names.prefix}-"))


def _log_groups(cloud: Cloud, names: Names) -> list[str]:
    pages = cloud.client("logs").get_paginator("describe_log_groups")
    found = pages.paginate(logGroupNamePrefix=f"/aws/lambda/{names.prefix}-")
    return [group["logGroupName"] for page in found for group in page["logGroups"]]


def _buckets(cloud: Cloud, names: Names) -> Iterator[str]:
    found = (of["Name"] for of in cloud.client("s3").list_buckets()["Buckets"])
    mine = (names.stack.lower(), names.toolkit.lower(), f"cdk-{names.qualifier}-", names.prefix)
    yield from (name for name in found if name.startswith(mine))


def _roles(cloud: Cloud, names: Names) -> Iterator[str]:
    for page in cloud.client("iam").get_paginator("list_roles").paginate():
        found = (of["RoleName"] for of in page["Roles"])
        yield from (name for name in found if name.startswith((names.stack, f"cdk-{names.qualifier}-")))


def _alarms(cloud: Cloud, names: Names) -> Iterator[str]:
    pages = cloud.client("cloudwatch").get_paginator("describe_alarms")
    kinds = ["MetricAlarm", "CompositeAlarm"]
    for page in pages.paginate(AlarmNamePrefix=f"{names.prefix}-", AlarmTypes=kinds):
        yield from (alarm["AlarmName"] for kind in kinds for alarm in page.get(f"{kind}s", ()))


_LISTS: dict[str, Callable[[Cloud, Names], Any]] = {
    "stack": _stacks,
    "table": _tables,
    "queue": _queues,
    "function": _functions,
    "log group": _log_groups,
    "bucket": _buckets,
    "role": _roles,
    "alarm": _alarms,
}
