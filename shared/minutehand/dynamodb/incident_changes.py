"""What an incident writes of a schedule, as the items of one transaction in DynamoDB.

By boto3, not PynamoDB: the undertaker and the ticker write it, and only a few attributes of the head move.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minutehand.domain.schedule import Head, Revision
from minutehand.domain.times import SECOND
from minutehand.dynamodb.dead_index import dead_row
from minutehand.dynamodb.expressions import Placeholders, condition, update
from minutehand.dynamodb.records import record_row
from minutehand.dynamodb.rows import entry_row, to_item
from minutehand.ports.schedules import IncidentChange
from minutehand.settings import Settings
from minutehand.state.conditions import Absent, Compare, Condition, all_of
from minutehand.state.transitions import Change

Item = dict[str, Any]


def items_of(note: IncidentChange, settings: Settings) -> list[Item]:
    """The writes of a note, as ``transact_write_items`` takes them."""
    head, version = note.head, Compare("version", "=", note.expected)
    items = [
        _update(settings.table("schedules"), {"tenant": head.tenant, "name": head.name}, head_changes(head), version)
    ]
    if note.revision is not None:
        key: dict[str, str | int] = {"owner": note.revision.owner, "number": note.revision.number}
        changes = revision_changes(note.revision, closes=note.closes)
        items.append(_update(settings.table("revisions"), key, changes, _there(closes=note.closes)))
    if note.dead is not None:
        line = _put(settings.table("runs"), dead_row(note.dead, note.expires // SECOND))
        line["Put"] |= {
            "ConditionExpression": "attribute_not_exists(#owner)",
            "ExpressionAttributeNames": {"#owner": "owner"},
        }
        items.append(line)
    items += [_put(settings.table("agenda"), entry_row(entry)) for entry in note.entries]
    items += [_put(settings.table("runs"), record_row(record)) for record in note.records]
    return items


def head_changes(head: Head) -> dict[str, Change]:
    """What a note changes of a head; what says nothing is removed."""
    return {
        "state": str(head.state),
        "version": head.version,
        "note": head.note,
        "resume_at": head.resume_at,
        "failing": head.failing or None,
        "failed_at": head.failed_at,
        "failed_run": head.failed_run,
        "incident": head.incident,
        "updated_at": head.updated_at,
    }


def revision_changes(revision: Revision, *, closes: bool) -> dict[str, Change]:
    """What a note changes of the current revision."""
    changes: dict[str, Change] = {"failing": revision.failing or None}
    if closes:
        changes |= {"active_until": revision.active_until, "closed_by": str(revision.closed_by)}
    return changes


def _there(*, closes: bool) -> Condition:
    there = Compare("shard", ">=", 0)
    return all_of(there, Absent("active_until")) if closes else there


def _update(table: str, key: Mapping[str, str | int], changes: Mapping[str, Change], guard: Condition) -> Item:
    use = Placeholders()
    return {
        "Update": {
            "TableName": table,
            "Key": to_item(key),
            "UpdateExpression": update(changes, use),
            "ConditionExpression": condition(guard, use),
            "ExpressionAttributeNames": use.names,
            "ExpressionAttributeValues": use.values,
        }
    }


def _put(table: str, row: Mapping[str, Any]) -> Item:
    return {"Put": {"TableName": table, "Item": to_item(row)}}
