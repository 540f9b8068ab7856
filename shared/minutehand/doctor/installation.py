"""Checks of the resources: configuration, access, tables, queues, bucket."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from minutehand.doctor.context import DoctorContext
from minutehand.doctor.findings import Finding, fail, ok, warn
from minutehand.doctor.probe import NO_CREDENTIALS, NO_REGION, UNREACHABLE, ProbeAnswer
from minutehand.domain.queue import striped, striped_text
from minutehand.dynamodb.tables import SCHEDULES, TABLES, TableDefinition
from minutehand.sqs.routing import RETENTION, stripe_called

_DEPLOYED = "deploy the stack to this account and region, or set MINUTEHAND_PREFIX and AWS_REGION to those of the stack"
_BUCKET = "set MINUTEHAND_BUCKET to the stack's output BucketName"
_LOCAL = "start `minutehand local` and use the line that it prints, or correct --endpoint or AWS_ENDPOINT_URL"


def configuration(context: DoctorContext) -> Iterator[Finding]:
    """The effective settings."""
    check, settings = "configuration", context.settings
    where = settings.endpoint or "AWS"
    shown = f"prefix {settings.prefix}, tenant {settings.tenant}, at {where}"
    if settings.endpoint is not None and not settings.endpoint.startswith(("http://", "https://")):
        remedy = "set AWS_ENDPOINT_URL to http://HOST:PORT, or unset it for AWS"
        yield fail(check, f"{shown}: the endpoint is no URL", remedy)
        return
    try:
        region = context.probe.region
    except Exception as problem:  # noqa: BLE001 (boto3 has several errors for an unknown profile or region)
        remedy = "set AWS_REGION to the region of the stack, and AWS_PROFILE to a profile that exists"
        yield fail(check, f"{shown}: {problem}", remedy)
        return
    yield ok(check, f"{shown}, region {region}")


def access(context: DoctorContext) -> Iterator[Finding]:
    """Whether AWS answers, and which identity the credentials have."""
    check = "access"
    answer = context.probe.call(
        "dynamodb", "get_item", TableName=context.settings.table(SCHEDULES.suffix), Key=no_row(SCHEDULES)
    )
    if answer.code == UNREACHABLE:
        remedy = _LOCAL if context.settings.endpoint else "check the network, AWS_REGION, and proxies"
        yield fail(check, f"no answer: {answer.text}", remedy)
    elif answer.code in (NO_CREDENTIALS, NO_REGION):
        remedy = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; `minutehand local` prints those of its cloud"
        yield fail(check, answer.text, remedy)
    elif answer.is_unauthenticated:
        remedy = "renew the credentials (e.g. aws sso login), and set this machine's clock"
        yield fail(check, f"{answer.code}: {answer.text}", remedy)
    else:
        yield _identity(context)


def _identity(context: DoctorContext) -> Finding:
    answer = context.probe.call("sts", "get_caller_identity")
    if answer.code is None:
        return ok("access", f"as {answer.data['Arn']}")
    return ok("access", f"AWS answers; the identity of the credentials is unknown ({answer.code})")


def tables(context: DoctorContext) -> Iterator[Finding]:
    """Whether the tables are there, with their keys, ready, and with an expiry."""
    for table in TABLES:
        yield _table(context, table)


def _table(context: DoctorContext, table: TableDefinition) -> Finding:
    check, name = "tables", context.settings.table(table.suffix)
    answer = context.probe.call("dynamodb", "get_item", TableName=name, Key=no_row(table))
    if answer.missing:
        return fail(check, f"{name} is not there", _DEPLOYED)
    if answer.code == "ValidationException":
        what = f"{name} has other keys than Minutehand's: {answer.text}"
        return fail(check, what, "set MINUTEHAND_PREFIX to that of the stack")
    if answer.code is not None:
        return warn(check, f"{name} cannot be read: {answer.code}", grant(answer))
    context.tables.add(table.suffix)
    return _ready(context, table, name) or ok(check, name)


def _ready(context: DoctorContext, table: TableDefinition, name: str) -> Finding | None:
    """The problem of an existing table, if it may be described and has one."""
    described = context.probe.call("dynamodb", "describe_table", TableName=name)
    status = described.data.get("Table", {}).get("TableStatus", "ACTIVE")
    if status != "ACTIVE":
        return warn("tables", f"{name} is {status}", "wait until it is ACTIVE")
    if table.ttl is None:
        return None
    expiry = context.probe.call("dynamodb", "describe_time_to_live", TableName=name)
    state = expiry.data.get("TimeToLiveDescription", {}).get("TimeToLiveStatus", "ENABLED")
    if state in ("ENABLED", "ENABLING"):
        return None
    return warn("tables", f"{name}: expired rows are not deleted", f"switch its TTL on, for the attribute {table.ttl}")


def queues(context: DoctorContext) -> Iterator[Finding]:
    """Whether the queues are there: those that every installation has, the declared ones, and the stripes of each."""
    listed = [*_listed(context, "work_"), *_listed(context, "work-")]
    for suffix in ("dead", "work", *listed):
        yield _queue(context, suffix)
    yield from _stripes(context, ["work", *listed])


def _listed(context: DoctorContext, begin: str) -> list[str]:
    """Suffixes of the work queues with this prefix; empty if they may not be listed."""
    answer = context.probe.call("sqs", "list_queues", QueueNamePrefix=context.settings.queue(begin))
    names = [url.rpartition("/")[2] for url in answer.data.get("QueueUrls", [])]
    return sorted(name.removeprefix(context.settings.queue("")) for name in names)


def _stripes(context: DoctorContext, suffixes: Sequence[str]) -> Iterator[Finding]:
    """Whether this process's number of stripes is the deployed one."""
    there: dict[str | None, int] = {}
    for suffix in suffixes:
        queue = suffix.removeprefix("work").partition("_")[0].removeprefix("-") or None
        there[queue] = max(there.get(queue, 1), stripe_called(suffix) + 1)
    known = striped(context.settings.stripes)
    if any(known.get(queue, 1) != number for queue, number in there.items()):
        stripes = striped_text(there)
        yield warn(
            "queues",
            f"there are the stripes {stripes or 'of no queue'}, and MINUTEHAND_STRIPES says {context.settings.stripes or 'nothing'}: "
            "messages from this process go to some of them only",
            f"set MINUTEHAND_STRIPES={stripes}" if stripes else "unset MINUTEHAND_STRIPES",
        )


def _queue(context: DoctorContext, suffix: str) -> Finding:
    check, name = "queues", context.settings.queue(suffix)
    found = context.probe.call("sqs", "get_queue_url", QueueName=name)
    if found.missing:
        return fail(check, f"{name} is not there, or you may not see it", _DEPLOYED)
    if found.code is not None:
        return _closed(name, suffix, found)
    answer = context.probe.call("sqs", "get_queue_attributes", QueueUrl=found.data["QueueUrl"], AttributeNames=["All"])
    if answer.code is not None:
        return _closed(name, suffix, answer)
    context.queues[suffix] = attributes = answer.data.get("Attributes", {})
    return _well_made(name, suffix, attributes, dead=context.settings.queue("dead"))


def _closed(name: str, suffix: str, answer: ProbeAnswer) -> Finding:
    """Only the functions need the dead-letter queue."""
    what = f"{name} cannot be looked at: {answer.code}"
    return (warn if suffix == "dead" else fail)("queues", what, grant(answer))


def _well_made(name: str, suffix: str, attributes: dict[str, Any], *, dead: str) -> Finding:
    """Whether the queue has the attributes that the construct sets."""
    again = "create it as the stack does: `cdk deploy`"
    if int(attributes.get("MessageRetentionPeriod", RETENTION)) < RETENTION:
        return warn("queues", f"{name} forgets messages before 14 days are over", again)
    target = str(json.loads(attributes.get("RedrivePolicy", "{}")).get("deadLetterTargetArn", ""))
    if suffix != "dead" and not target.endswith(f":{dead}"):
        return warn("queues", f"{name} moves dead letters to {target or 'no queue'}, not to {dead}", again)
    return ok("queues", name)


def bucket(context: DoctorContext) -> Iterator[Finding]:
    """Whether the bucket for large payloads exists."""
    check, name = "bucket", context.settings.bucket
    if name is None:
        yield warn(check, "none is set: payloads over 64 KB and large results are refused", _BUCKET)
        return
    answer = context.probe.call("s3", "get_object", Bucket=name, Key="payloads/~doctor")
    if answer.missing:
        yield fail(check, f"{name} is not there", _BUCKET)
    elif answer.code in (None, "NoSuchKey"):
        yield ok(check, name)
    elif answer.denied:  # S3 answers so for a missing key, too, if the caller may not list
        yield ok(check, f"{name} is there; whether you may read from it shows only with a payload that exists")
    else:
        remedy = "set MINUTEHAND_BUCKET and AWS_REGION to those of the stack"
        yield fail(check, f"{name}: {answer.code}: {answer.text}", remedy)


def grant(answer: ProbeAnswer) -> str:
    """The remedy for an action that IAM denies."""
    if answer.denied:
        return f"allow {answer.action}: `grant_scheduling` of the construct gives all that the SDK needs"
    return f"{answer.text or answer.code}: try again"


def no_row(table: TableDefinition) -> dict[str, dict[str, str]]:
    """A key that no row has: no tenant begins with ``~``, and no time precedes the epoch."""
    last = {"N": "-1"} if table.range_type == "N" else {"S": "~doctor"}
    return {table.hash_key: {"S": "~doctor"}, table.range_key: last}
