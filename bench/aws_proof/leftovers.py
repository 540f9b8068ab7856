"""Everything that has a name of a proof, kind by kind: how it is found, how it is removed, and the command that removes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.aws_proof.cloud import Cloud, Names, if_there

_ROLE = "role"


@dataclass(frozen=True)
class Left:
    """What is still there, or could not be looked for, and the command for it."""

    what: str
    command: str

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True)
class Kind:
    """Resources of one kind."""

    find: Callable[[Cloud, Names], Iterable[str]]
    remove: Callable[[Cloud, str], object] | None  # None: `removal` does it, and waits for it
    command: str  # of AWS's command line, to which the name is added
    look: str  # the command that lists them


def left(cloud: Cloud, names: Names) -> list[Left]:
    """Everything that still has one of the names. A kind that cannot be listed may be there: it counts as left."""
    found = list[Left]()
    for kind, of in KINDS.items():
        try:
            found += [
                Left(f"{kind} {name}", _at(cloud, f"aws {of.command} {name.partition(' ')[0]}"))
                for name in of.find(cloud, names)
            ]
        except Exception as problem:  # noqa: BLE001 (any failure: the other kinds are looked for all the same)
            found.append(Left(f"perhaps a {kind}: {problem}", _at(cloud, f"aws {of.look}")))
    return found


def sweep(cloud: Cloud, names: Names) -> Iterator[str]:
    """Remove everything that is still there, stacks excepted; yields the problems.

    Roles stay as long as a stack does: CloudFormation deletes it by one of them.
    """
    for kind, of in KINDS.items():
        try:
            if of.remove is None or (kind == _ROLE and any(_stacks(cloud, names))):
                continue
            for name in of.find(cloud, names):
                with if_there():
                    of.remove(cloud, name.partition(" ")[0])
        except Exception as problem:  # noqa: BLE001 (likewise)
            yield f"{kind}: {problem}"


def empty(cloud: Cloud, bucket: str) -> None:
    """Delete all objects, versions and markers."""
    s3 = cloud.client("s3")
    with if_there():
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            keys = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
            if keys:
                s3.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})


def status_of(cloud: Cloud, stack: str) -> str | None:
    """A stack's status; None if it is gone."""
    status = "DELETE_COMPLETE"
    with if_there():
        status = str(cloud.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"])
    return None if status == "DELETE_COMPLETE" else status


def _at(cloud: Cloud, command: str) -> str:
    return f"{command} --region {cloud.region}"


def _stacks(cloud: Cloud, names: Names) -> Iterator[str]:
    for stack in (names.stack, names.toolkit):
        if (status := status_of(cloud, stack)) is not None:
            yield f"{stack} ({status})"


def _tables(cloud: Cloud, names: Names) -> Iterator[str]:
    for page in cloud.client("dynamodb").get_paginator("list_tables").paginate():
        yield from (name for name in page["TableNames"] if name.startswith(f"{names.prefix}-"))


def _queues(cloud: Cloud, names: Names) -> Iterator[str]:
    yield from cloud.client("sqs").list_queues(QueueNamePrefix=f"{names.prefix}-").get("QueueUrls", ())


def _functions(cloud: Cloud, names: Names) -> Iterator[str]:
    for page in cloud.client("lambda").get_paginator("list_functions").paginate():
        found = (of["FunctionName"] for of in page["Functions"])
        yield from (name for name in found if name.startswith(f"{names.prefix}-"))


def _log_groups(cloud: Cloud, names: Names) -> Iterator[str]:
    pages = cloud.client("logs").get_paginator("describe_log_groups")
    found = pages.paginate(logGroupNamePrefix=f"/aws/lambda/{names.prefix}-")
    yield from (group["logGroupName"] for page in found for group in page["logGroups"])


def _buckets(cloud: Cloud, names: Names) -> Iterator[str]:
    found = (of["Name"] for of in cloud.client("s3").list_buckets()["Buckets"])
    mine = (names.stack.lower(), names.toolkit.lower(), f"cdk-{names.qualifier}-", names.prefix)
    yield from (name for name in found if name.startswith(mine))


def _remove_bucket(cloud: Cloud, name: str) -> None:
    empty(cloud, name)
    cloud.client("s3").delete_bucket(Bucket=name)


def _roles(cloud: Cloud, names: Names) -> Iterator[str]:
    for page in cloud.client("iam").get_paginator("list_roles").paginate():
        found = (of["RoleName"] for of in page["Roles"])
        yield from (name for name in found if name.startswith((names.stack, f"cdk-{names.qualifier}-")))


def _remove_role(cloud: Cloud, name: str) -> None:
    """IAM deletes no role that has policies."""
    iam = cloud.client("iam")
    for attached in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
        iam.detach_role_policy(RoleName=name, PolicyArn=attached["PolicyArn"])
    for inline in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        iam.delete_role_policy(RoleName=name, PolicyName=inline)
    iam.delete_role(RoleName=name)


def _alarms(cloud: Cloud, names: Names) -> list[str]:
    """Composite ones first: they are made of the others."""
    pages = cloud.client("cloudwatch").get_paginator("describe_alarms")
    kinds = ["CompositeAlarm", "MetricAlarm"]
    found = list(pages.paginate(AlarmNamePrefix=f"{names.prefix}-", AlarmTypes=kinds))
    return [alarm["AlarmName"] for kind in kinds for page in found for alarm in page.get(f"{kind}s", ())]


def _call(service: str, operation: str, argument: str) -> Callable[[Cloud, str], object]:
    """The removal of a kind whose name is the call's only argument."""

    def remove(cloud: Cloud, name: str) -> Any:
        return getattr(cloud.client(service), operation)(**{argument: name})

    return remove


def _alarm_gone(cloud: Cloud, name: str) -> None:
    cloud.client("cloudwatch").delete_alarms(AlarmNames=[name])


# In the order in which they are removed.
KINDS: dict[str, Kind] = {
    "stack": Kind(
        _stacks,
        None,
        "cloudformation delete-stack --stack-name",
        "cloudformation list-stacks",
    ),
    "function": Kind(
        _functions,
        _call("lambda", "delete_function", "FunctionName"),
        "lambda delete-function --function-name",
        "lambda list-functions",
    ),
    "alarm": Kind(_alarms, _alarm_gone, "cloudwatch delete-alarms --alarm-names", "cloudwatch describe-alarms"),
    "queue": Kind(_queues, _call("sqs", "delete_queue", "QueueUrl"), "sqs delete-queue --queue-url", "sqs list-queues"),
    "table": Kind(
        _tables,
        _call("dynamodb", "delete_table", "TableName"),
        "dynamodb delete-table --table-name",
        "dynamodb list-tables",
    ),
    "log group": Kind(
        _log_groups,
        _call("logs", "delete_log_group", "logGroupName"),
        "logs delete-log-group --log-group-name",
        "logs describe-log-groups",
    ),
    "bucket": Kind(_buckets, _remove_bucket, "s3api delete-bucket --bucket", "s3api list-buckets"),
    _ROLE: Kind(_roles, _remove_role, "iam delete-role --role-name", "iam list-roles"),
}
