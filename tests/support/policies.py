"""Enforces the statements of a role on the clients of this process, as IAM documents it for the calls that Quarterjack makes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pytest
from quarterjack.aws.client import Client
from quarterjack.aws.errors import ServiceError, translated
from quarterjack.settings import Settings
from quarterjack.stores.tables import TABLES

# Operations that ask for another action than their own name, or for one for each item.
_TRANSACTION = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
}
_PARTIQL = {"INSERT": "PartiQLInsert", "UPDATE": "PartiQLUpdate", "DELETE": "PartiQLDelete", "SELECT": "PartiQLSelect"}
_SQS = {"send_message_batch": "SendMessage", "delete_message_batch": "DeleteMessage"}
_HASH_KEYS = {table.suffix: table.hash_key for table in TABLES}


@dataclass(frozen=True)
class Need:
    """One action on one resource, with the partition keys that it names."""

    action: str
    resource: str  # suffix of a table or queue, or the key of an object; empty: none
    keys: tuple[str, ...] = ()


def needs_of(service: str, operation: str, arguments: Mapping[str, Any], settings: Settings) -> Iterator[Need]:
    """What IAM asks about a call."""
    if service == "sts":  # everybody may ask who he is
        return
    if service == "dynamodb":
        yield from _table_needs(operation, arguments, settings)
    elif service == "sqs":
        name = _SQS.get(operation, operation.title().replace("_", ""))
        queue = arguments.get("QueueUrl", arguments.get("QueueName", "")).rpartition("/")[2]
        yield Need(f"sqs:{name}", queue.removeprefix(f"{settings.prefix}-"))
    elif service == "ssm":  # of the template's own prefix
        place = arguments.get("Name", arguments.get("Path", ""))
        yield Need(
            f"ssm:{operation.title().replace('_', '')}", place.replace(f"/{settings.prefix}/", "/quarterjack/", 1)
        )
    elif service == "logs":
        group = arguments["logGroupName"].replace(f"/aws/lambda/{settings.prefix}-", "/aws/lambda/quarterjack-", 1)
        yield Need("logs:FilterLogEvents", group)
    elif operation in ("list_objects_v2", "list_object_versions"):
        action = "s3:ListBucket" if operation == "list_objects_v2" else "s3:ListBucketVersions"
        yield Need(action, "", (arguments["Prefix"],))
    elif operation == "delete_objects":
        for each in arguments["Delete"]["Objects"]:
            yield Need("s3:DeleteObjectVersion" if "VersionId" in each else "s3:DeleteObject", each["Key"])
    elif "VersionId" in arguments:
        yield Need("s3:GetObjectVersion", arguments["Key"])
    else:
        yield Need(f"{service}:{operation.title().replace('_', '')}", arguments.get("Key", ""))


def _table_needs(operation: str, arguments: Mapping[str, Any], settings: Settings) -> Iterator[Need]:
    for action, table, keys in _touched(operation, arguments):
        suffix = table.removeprefix(f"{settings.prefix}-")
        owners = (key if isinstance(key, str) else key[_HASH_KEYS[suffix]]["S"] for key in keys)
        yield Need(f"dynamodb:{action}", suffix, tuple(dict.fromkeys(owners)))


def _touched(operation: str, arguments: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Any]]]:
    """Action, table, and the keys or items (or partition keys) that it names."""
    if operation == "batch_execute_statement":
        for statement in arguments["Statements"]:
            text, values = statement["Statement"], statement["Parameters"]
            yield _PARTIQL[text.split()[0]], text.split('"')[1], [_partiql_key(text, values)]
    elif operation == "transact_write_items":
        for item in arguments["TransactItems"]:
            ((kind, act),) = item.items()
            yield _TRANSACTION[kind], act["TableName"], [act.get("Key") or act["Item"]]
    elif operation in ("batch_get_item", "batch_write_item"):
        for table, asked in arguments["RequestItems"].items():
            keys = asked["Keys"] if "Keys" in asked else [r[k].get("Key") or r[k]["Item"] for r in asked for k in r]
            yield operation.title().replace("_", ""), table, keys
    elif operation == "query":
        name = re.search(r"#?\w+ = (:\w+)", arguments["KeyConditionExpression"])
        assert name, arguments["KeyConditionExpression"]
        yield "Query", arguments["TableName"], [arguments["ExpressionAttributeValues"][name[1]]["S"]]
    else:
        keys = [arguments[word] for word in ("Key", "Item") if word in arguments]
        yield operation.title().replace("_", ""), arguments["TableName"], keys


def _partiql_key(text: str, values: Sequence[Mapping[str, str]]) -> str:
    """The owner in a statement: of an INSERT the value beside its name, of others the parameter of ``"owner"=?``."""
    if text.startswith("INSERT"):
        names = re.findall(r"'(\w+)'\s*:\s*\?", text)
        return values[names.index("owner")]["S"]
    before, _, _ = text.partition('"owner"=?')
    return values[before.count("?")]["S"]


def is_allowed(need: Need, statements: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a statement allows it: action, resource, and the conditions that the grants use."""
    return any(_allows(statement, need) for statement in statements)


def _allows(statement: Mapping[str, Any], need: Need) -> bool:
    actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
    resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
    conditions = dict(statement.get("Condition", {}))
    patterns = conditions.pop("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys", ["*"])
    prefix = conditions.pop("StringLike", {}).get("s3:prefix")
    patterns = patterns if prefix is None else prefix if isinstance(prefix, list) else [prefix]
    required = conditions.pop("Null", {}).get("dynamodb:LeadingKeys") == "false"
    assert not conditions, f"this support knows no {conditions}"
    return (
        need.action in actions
        and any(_names(resource, need) for resource in resources)
        and all(any(fnmatchcase(key, pattern) for pattern in patterns) for key in need.keys)
        and bool(need.keys or not required)
    )


def _names(resource: Any, need: Need) -> bool:
    text = json.dumps(resource)
    if need.action in ("s3:ListBucket", "s3:ListBucketVersions"):
        return '"JobsStoreBucket' in text
    if need.action.startswith("s3:"):
        return any(fnmatchcase(need.resource, part.strip("/")) for part in re.findall(r'"(/[^"]+)"', text))
    if need.action.startswith("logs:"):
        return any(fnmatchcase(need.resource, part) for part in re.findall(r'":log-group:([^"]+):\*"', text))
    if need.action.startswith("ssm:"):
        return any(fnmatchcase(need.resource, part) for part in re.findall(r'":parameter([^"]+)"', text))
    if resource == "*":
        return True
    place = "Store" if need.action.startswith("dynamodb:") else "Queues"
    return re.search(rf'"Jobs{place}{need.resource.replace("-", "").capitalize()}[0-9A-F]{{8}}"', text) is not None


@contextmanager
def enforced(statements: Sequence[Mapping[str, Any]] | None, settings: Settings) -> Iterator[list[Need]]:
    """While it lasts, a call that the statements do not allow is refused as AWS refuses it. The list has all that was needed.

    None allows everything.
    """
    needed: list[Need] = []
    call = Client._called

    def checked(self: Client, operation: str, arguments: dict[str, Any], attempts: int | None) -> dict[str, Any]:
        for need in needs_of(self._service, operation, arguments, settings):
            needed.append(need)
            if statements is not None and not is_allowed(need, statements):
                error = {"Code": "AccessDeniedException", "Message": f"not authorized to perform {need}"}
                response = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}
                raise translated(response, operation) from ServiceError(response)
        return call(self, operation, arguments, attempts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "_called", checked)
        yield needed
