"""Checks of the resources: configuration, access, tables, queues, bucket; and of the permissions for them.

Every action that the SDK needs is tried, on missing rows and with conditions that no row meets. A tried write costs a write unit and
changes nothing. ``sqs:SendMessage`` and ``s3:PutObject`` cannot be tried without an effect.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from quarterjack.aws import BAD_CREDENTIALS
from quarterjack.doctor.context import (
    NO_CREDENTIALS,
    NO_REGION,
    UNREACHABLE,
    DoctorContext,
    Finding,
    ProbeAnswer,
    at_once,
    fail,
    ok,
    warn,
)
from quarterjack.domain.queue import DEFAULT_QUEUE, prioritised_text
from quarterjack.local_installations import local_remedy
from quarterjack.sqs.routing import RETENTION
from quarterjack.sqs.stripes import Stripes
from quarterjack.stores.tables import SCHEDULES, STREAM, TABLES, TableDefinition
from quarterjack.version import VERSION

Key = dict[str, dict[str, str]]
_DEPLOYED = (
    "deploy the stack to this account and region, or set QUARTERJACK_PREFIX and AWS_REGION to those of the stack"
)
_BUCKET = "set QUARTERJACK_BUCKET to the stack's output BucketName"
_ARCHIVE_BUCKET = "set QUARTERJACK_ARCHIVE_BUCKET to the stack's output ArchiveBucketName, or unset it if there is none"
_LOCAL = "start `quarterjack local` and use the line that it prints, or correct --endpoint or AWS_ENDPOINT_URL"
WANTED = {  # what ``grant_scheduling`` gives, by table; a test compares the two
    "schedules": ("get_item", "query", "put_item", "update_item"),
    "revisions": ("get_item", "batch_get_item", "query", "put_item", "update_item"),
    "agenda": ("get_item", "query", "put_item", "batch_write_item"),
    "runs": ("get_item", "batch_get_item", "query", "put_item", "update_item", "batch_execute_statement"),
    "audit": ("get_item", "query", "put_item"),
    "tenants": ("batch_get_item",),
}


def configuration(context: DoctorContext) -> Iterator[Finding]:
    """The effective settings."""
    settings = context.settings
    shown = f"release {VERSION}, prefix {settings.prefix}, tenant {settings.tenant}, at {settings.endpoint or 'AWS'}"
    if settings.endpoint is not None and not settings.endpoint.startswith(("http://", "https://")):
        yield fail(f"{shown}: the endpoint is no URL", "set AWS_ENDPOINT_URL to http://HOST:PORT, or unset it for AWS")
        return
    try:
        region = context.probe.region
    except Exception as problem:  # noqa: BLE001 (boto3 has several errors for an unknown profile or region)
        remedy = "set AWS_REGION to the region of the stack, and AWS_PROFILE to a profile that exists"
        yield fail(f"{shown}: {problem}", _or_local(context, remedy))
    else:
        yield ok(f"{shown}, region {region}")


def _or_local(context: DoctorContext, remedy: str) -> str:
    """The remedy, and the local installation that runs on this machine, if no endpoint is set."""
    local = None if context.settings.endpoint else local_remedy()
    return remedy if local is None else f"{remedy}, {local}"


def access(context: DoctorContext) -> Iterator[Finding]:
    """Whether AWS answers, and which identity the credentials have."""
    table = context.settings.table(SCHEDULES.suffix)
    answer = context.probe.call("dynamodb", "get_item", TableName=table, Key=no_row(SCHEDULES, context.settings.tenant))
    if answer.code == UNREACHABLE:
        remedy = _LOCAL if context.settings.endpoint else "check the network, AWS_REGION, and proxies"
        yield fail(f"no answer: {answer.text}", remedy)
    elif answer.code in (NO_CREDENTIALS, NO_REGION):
        remedy = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; `quarterjack local` prints those of its cloud"
        yield fail(answer.text, _or_local(context, remedy))
    elif answer.code in BAD_CREDENTIALS:
        remedy = "renew the credentials (e.g. aws sso login), and set this machine's clock"
        yield fail(f"{answer.code}: {answer.text}", remedy)
    else:
        caller = context.probe.call("sts", "get_caller_identity")
        unknown = f"AWS answers; the identity of the credentials is unknown ({caller.code})"
        yield ok(f"as {caller.data['Arn']}" if caller.code is None else unknown)


def tables(context: DoctorContext) -> Iterator[Finding]:
    """Whether the tables are there, with their keys, ready, with an expiry, and with a stream."""
    yield from at_once(partial(_table, context), TABLES)


def _table(context: DoctorContext, table: TableDefinition) -> Finding:
    name, call = context.settings.table(table.suffix), context.probe.call
    answer = call("dynamodb", "get_item", TableName=name, Key=no_row(table, context.settings.tenant))
    if answer.missing:
        return fail(f"{name} is not there", _DEPLOYED)
    if answer.code == "ValidationException":
        what = f"{name} has other keys than Quarterjack's: {answer.text}"
        return fail(what, "set QUARTERJACK_PREFIX to that of the stack")
    if answer.code is not None:
        return warn(f"{name} cannot be read: {answer.code}", grant(answer))
    context.tables.add(table.suffix)
    described = call("dynamodb", "describe_table", TableName=name)
    table_now = described.data.get("Table", {"StreamSpecification": STREAM})  # it is well unless AWS says otherwise
    return _of_state(context, table, table_now) or ok(name)


def _of_state(context: DoctorContext, table: TableDefinition, now: Mapping[str, Any]) -> Finding | None:
    """Problems of a table that can be read."""
    name = context.settings.table(table.suffix)
    status = now.get("TableStatus", "ACTIVE")
    if status != "ACTIVE":
        return warn(f"{name} is {status}", "wait until it is ACTIVE")
    if table.stream and context.settings.history and now.get("StreamSpecification") != STREAM:
        what = f"{name} has no stream of old and new images: the history stands still"
        return warn(what, "deploy the stack again, or set QUARTERJACK_HISTORY=off for all processes")
    if table.ttl is not None:
        expiry = context.probe.call("dynamodb", "describe_time_to_live", TableName=name)
        state = expiry.data.get("TimeToLiveDescription", {}).get("TimeToLiveStatus", "ENABLED")
        if state not in ("ENABLED", "ENABLING"):
            return warn(f"{name}: expired rows are not deleted", f"switch its TTL on, for the attribute {table.ttl}")
    return None


def queues(context: DoctorContext) -> Iterator[Finding]:
    """Whether the queues are there: those that every installation has, the declared ones, and all SQS queues of each."""
    listed = [*_listed(context, "work_"), *_listed(context, "work-")]
    suffixes = ("dead", "work", *listed)
    yield from at_once(partial(_queue, context), suffixes)
    context.queues = {suffix: context.queues[suffix] for suffix in suffixes if suffix in context.queues}
    there, said = Stripes.of_names(("work", *listed)), context.settings
    known = Stripes.parse(said.stripes, said.priorities)
    yield from _lanes(context, there.prioritised, known.prioritised)
    if any(known.of(queue) != number for queue, number in there.numbers.items()):
        wanted = there.texts[0]
        yield warn(
            f"there are the SQS queues {wanted or 'one of each queue'}, and QUARTERJACK_STRIPES says {said.stripes or 'nothing'}: "
            "messages from this process go to some of them only",
            f"set QUARTERJACK_STRIPES={wanted}" if wanted else "unset QUARTERJACK_STRIPES",
        )


def _lanes(context: DoctorContext, there: frozenset[str | None], known: frozenset[str | None]) -> Iterator[Finding]:
    """Whether this process sends to the lanes that there are, and to no others. Both: queues with lanes."""
    for queue in sorted(known - there, key=str):
        what = f"queue {queue or DEFAULT_QUEUE} has no lanes: its messages have normal priority"
        yield warn(
            what, "declare Queue(..., priorities=True), for the default queue Quarterjack(priorities=True), and deploy"
        )
    if there - known:
        names = prioritised_text(there)
        what = f"there are the lanes of {names}, and QUARTERJACK_PRIORITIES says {context.settings.priorities or 'nothing'}: "
        yield warn(f"{what}this process sends all runs the normal way", f"set QUARTERJACK_PRIORITIES={names}")


def _listed(context: DoctorContext, begin: str) -> list[str]:
    """Suffixes of the work queues with this prefix; empty if they may not be listed."""
    answer = context.probe.call("sqs", "list_queues", QueueNamePrefix=context.settings.queue(begin))
    names = [url.rpartition("/")[2] for url in answer.data.get("QueueUrls", [])]
    return sorted(name.removeprefix(context.settings.queue("")) for name in names)


def _queue(context: DoctorContext, suffix: str) -> Finding:
    """Whether the queue is there, with the attributes that the construct sets."""
    name, dead, call = context.settings.queue(suffix), context.settings.queue("dead"), context.probe.call
    found = call("sqs", "get_queue_url", QueueName=name)
    if found.missing:
        return fail(f"{name} is not there, or you may not see it", _DEPLOYED)
    if found.code is None:
        found = call("sqs", "get_queue_attributes", QueueUrl=found.data["QueueUrl"], AttributeNames=["All"])
    if found.code is not None:  # only the functions need the dead-letter queue
        return (warn if name == dead else fail)(f"{name} cannot be read: {found.code}", grant(found))
    context.queues[suffix] = attributes = found.data.get("Attributes", {})
    again = "create it as the stack does: `cdk deploy`"
    if int(attributes.get("MessageRetentionPeriod", RETENTION)) < RETENTION:
        return warn(f"{name} forgets messages before 14 days are over", again)
    target = str(json.loads(attributes.get("RedrivePolicy", "{}")).get("deadLetterTargetArn", ""))
    if name != dead and not target.endswith(f":{dead}"):
        return warn(f"{name} moves dead letters to {target or 'no queue'}, not to {dead}", again)
    return ok(name)


def bucket(context: DoctorContext) -> Iterator[Finding]:
    """Whether the bucket for large payloads and the archive exists, and that of the archive, if it has one of its own."""
    if context.settings.bucket is None:
        yield warn("none is set: payloads over 64 KB and large results are refused, and there is no archive", _BUCKET)
    else:
        yield from _bucket(context, context.settings.bucket, "payloads", _BUCKET)
    if context.settings.archive_bucket is not None:
        yield from _bucket(context, context.settings.archive_bucket, "archive", _ARCHIVE_BUCKET)


def _bucket(context: DoctorContext, name: str, folder: str, remedy: str) -> Iterator[Finding]:
    answer = context.probe.call("s3", "get_object", Bucket=name, Key=f"{folder}/~doctor")
    if answer.missing:
        yield fail(f"{name} is not there", remedy)
    elif answer.code in (None, "NoSuchKey"):
        yield ok(name)
    elif answer.denied:  # S3 answers so for a missing key, too, if the caller may not list
        yield ok(f"{name} is there; whether you may read from it shows only with an object that exists")
    else:
        yield fail(f"{name}: {answer.code}: {answer.text}", f"{remedy}, and AWS_REGION to its region")


def grant(answer: ProbeAnswer) -> str:
    """The remedy for an action that IAM denies."""
    if answer.denied:
        return f"allow {answer.action}: `grant_scheduling` of the construct gives all that the SDK needs"
    return f"{answer.text or answer.code}: try again"


def no_row(table: TableDefinition, tenant: str) -> Key:
    """A key that no row has, in a partition of the tenant: no name begins with ``~``, no revision is negative, no shard is a word."""
    last = {"N": "-1"} if table.range_type == "N" else {"S": "~doctor"}
    return {table.hash_key: {"S": _partition(table, tenant)}, table.range_key: last}


def _partition(table: TableDefinition, tenant: str) -> str:
    return {"schedules": tenant, "agenda": "~doctor", "audit": f"{tenant}#2~doctor", "tenants": tenant}.get(
        table.suffix, f"{tenant}/~doctor"
    )


def permissions(context: DoctorContext) -> Iterator[Finding]:
    """One finding for each refusal, or one for all that is allowed."""
    there = [table for table in TABLES if table.suffix in context.tables]
    tries = [(table, operation) for table in there for operation in WANTED.get(table.suffix, ())]
    refusals = [one for one in at_once(partial(_tried, context), tries) if one is not None]
    yield from refusals
    if tries and not refusals:
        yield ok(f"{len(tries)} actions on the tables tried, none refused; sending and storing cannot be tried")


def _tried(context: DoctorContext, action: tuple[TableDefinition, str]) -> Finding | None:
    """The refusal of an action on a table; None if it is allowed."""
    table, operation = action
    name = context.settings.table(table.suffix)
    arguments = _ARGUMENTS[operation](name, table, no_row(table, context.settings.tenant))
    refusal = _refusal(context.probe.call("dynamodb", operation, **arguments))
    return None if refusal is None else fail(f"you may not {refusal.action} on {name}", grant(refusal))


def _refusal(answer: ProbeAnswer) -> ProbeAnswer | None:
    """The first denial in an answer: a batch answers each statement."""
    if answer.denied:
        return answer
    errors = [one.get("Error", {}) for one in answer.data.get("Responses", []) if isinstance(one, dict)]
    if all(error.get("Code") != "AccessDenied" for error in errors):
        return None
    return ProbeAnswer(action="dynamodb:PartiQLUpdate", code="AccessDenied")


def _never(name: str, table: TableDefinition) -> dict[str, Any]:
    """A condition that fails for an existing and for a missing row."""
    return {
        "TableName": name,
        "ConditionExpression": "attribute_exists(#key) AND attribute_not_exists(#key)",
        "ExpressionAttributeNames": {"#key": table.hash_key},
    }


def _query(name: str, table: TableDefinition, row: Key) -> dict[str, Any]:
    return {
        "TableName": name,
        "Limit": 1,
        "KeyConditionExpression": "#key = :nobody AND #range = :nothing",
        "ExpressionAttributeNames": {"#key": table.hash_key, "#range": table.range_key},
        "ExpressionAttributeValues": {":nobody": row[table.hash_key], ":nothing": row[table.range_key]},
    }


def _statement(name: str, table: TableDefinition, row: Key) -> dict[str, Any]:
    where = f'"{table.hash_key}" = ? AND "{table.range_key}" = ? AND "state" = \'NONE\''
    text = f'UPDATE "{name}" SET "reason" = \'\' WHERE {where}'  # noqa: S608 (no row has this key)
    return {"Statements": [{"Statement": text, "Parameters": [row[table.hash_key], row[table.range_key]]}]}


_ARGUMENTS: Mapping[str, Callable[[str, TableDefinition, Key], dict[str, Any]]] = {
    "get_item": lambda name, table, row: {"TableName": name, "Key": row},
    "batch_get_item": lambda name, table, row: {"RequestItems": {name: {"Keys": [row]}}},
    "query": _query,
    "put_item": lambda name, table, row: {"Item": row, **_never(name, table)},
    "update_item": lambda name, table, row: {"Key": row, "UpdateExpression": "REMOVE nothing", **_never(name, table)},
    "batch_execute_statement": _statement,
    "batch_write_item": lambda name, table, row: {"RequestItems": {name: [{"DeleteRequest": {"Key": row}}]}},
}
