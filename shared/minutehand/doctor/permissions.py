"""Checks of permissions. Every action that the SDK needs is tried, on missing rows and with conditions that no row meets.

A tried write costs a write unit and changes nothing. ``sqs:SendMessage`` and ``s3:PutObject`` cannot be tried without an effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from minutehand.doctor.context import DoctorContext, Finding, ProbeAnswer, fail, ok
from minutehand.doctor.installation import grant, no_row
from minutehand.dynamodb.tables import TABLES, TableDefinition

_WANTED = {  # what ``grant_scheduling`` gives, by table; a test compares the two
    "schedules": ("get_item", "batch_get_item", "query", "put_item", "update_item", "transact_write_items"),
    "revisions": ("get_item", "batch_get_item", "query", "put_item", "update_item", "transact_write_items"),
    "agenda": (
        *("get_item", "batch_get_item", "query", "put_item", "update_item", "transact_write_items"),
        *("delete_item", "batch_write_item"),
    ),
    "runs": (
        *("get_item", "batch_get_item", "query", "put_item", "update_item", "transact_write_items"),
        "batch_execute_statement",
    ),
}


def permissions(context: DoctorContext) -> Iterator[Finding]:
    """One finding for each refusal, or one for all that is allowed."""
    tried = refused = 0
    for table in TABLES:
        if table.suffix not in context.tables:
            continue
        name = context.settings.table(table.suffix)
        for operation in _WANTED[table.suffix]:
            answer = context.probe.call("dynamodb", operation, **_ARGUMENTS[operation](name, table))
            tried += 1
            if (refusal := _refusal(answer)) is not None:
                refused += 1
                yield fail("permissions", f"you may not {refusal.action} on {name}", grant(refusal))
    if tried and not refused:
        yield ok(
            "permissions", f"{tried} actions on the tables tried, none refused; sending and storing cannot be tried"
        )


def _refusal(answer: ProbeAnswer) -> ProbeAnswer | None:
    """The first denial in an answer: a batch answers each statement."""
    if answer.denied:
        return answer
    errors = [one.get("Error", {}) for one in answer.data.get("Responses", []) if isinstance(one, dict)]
    codes = {str(error.get("Code")) for error in errors}
    return ProbeAnswer(action="dynamodb:PartiQLUpdate", code="AccessDenied") if "AccessDenied" in codes else None


def _never(table: TableDefinition) -> dict[str, Any]:
    """A condition that fails for an existing and for a missing row."""
    names = {"#key": table.hash_key}
    return {
        "ConditionExpression": "attribute_exists(#key) AND attribute_not_exists(#key)",
        "ExpressionAttributeNames": names,
    }


def _query(name: str, table: TableDefinition) -> dict[str, Any]:
    return {
        "TableName": name,
        "Limit": 1,
        "KeyConditionExpression": "#key = :nobody",
        "ExpressionAttributeNames": {"#key": table.hash_key},
        "ExpressionAttributeValues": {":nobody": {"S": "~doctor"}},
    }


def _condition_check(name: str, table: TableDefinition) -> dict[str, Any]:
    return {"TransactItems": [{"ConditionCheck": {"TableName": name, "Key": no_row(table), **_never(table)}}]}


def _statement(name: str, table: TableDefinition) -> dict[str, Any]:
    where = f"\"{table.hash_key}\" = '~doctor' AND \"{table.range_key}\" = '~doctor' AND \"state\" = 'NONE'"
    return {"Statements": [{"Statement": f'UPDATE "{name}" SET "reason" = \'\' WHERE {where}'}]}  # noqa: S608 (no row has this key)


_ARGUMENTS: Mapping[str, Callable[[str, TableDefinition], dict[str, Any]]] = {
    "get_item": lambda name, table: {"TableName": name, "Key": no_row(table)},
    "batch_get_item": lambda name, table: {"RequestItems": {name: {"Keys": [no_row(table)]}}},
    "query": _query,
    "put_item": lambda name, table: {"TableName": name, "Item": no_row(table), **_never(table)},
    "update_item": lambda name, table: {
        "TableName": name,
        "Key": no_row(table),
        "UpdateExpression": "REMOVE nothing",
        **_never(table),
    },
    "transact_write_items": _condition_check,
    "batch_execute_statement": _statement,
    "delete_item": lambda name, table: {"TableName": name, "Key": no_row(table), **_never(table)},
    "batch_write_item": lambda name, table: {"RequestItems": {name: [{"DeleteRequest": {"Key": no_row(table)}}]}},
}
