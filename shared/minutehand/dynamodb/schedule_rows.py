"""Heads, revisions and freezes as rows and back: attribute name to text or number. What says nothing is None, and is not stored.

The models write these rows, and both ways of reading end here, so that a row is read in one way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from minutehand.domain.formats.schema import GARBAGE, check_schema, unreadable
from minutehand.domain.freeze import Freeze, freeze_key
from minutehand.domain.options import Options
from minutehand.domain.policies import Overrides
from minutehand.domain.schedule import ClosedBy, Definition, Head, Revision, ScheduleState
from minutehand.errors import MinutehandError
from minutehand.timing.rule import from_json

ControlRow = dict[str, str | int | None]


def head_row(head: Head) -> ControlRow:
    """A head as a row."""
    return {
        "tenant": head.tenant,
        "name": head.name,
        "state": str(head.state),
        "revision": head.revision,
        "version": head.version,
        "job": head.job,
        "expression": head.expression,
        "timezone": head.timezone,
        "description": head.description or None,
        "tags": json.dumps(dict(head.tags)) if head.tags else None,
        "note": head.note,
        "resume_at": head.resume_at,
        "managed_by": head.managed_by,
        "failing": head.failing or None,
        "failed_at": head.failed_at,
        "failed_run": head.failed_run,
        "incident": head.incident,
        "created_at": head.created_at,
        "updated_at": head.updated_at,
    }


def head_of(row: Mapping[str, Any]) -> Head:
    """A head from its row; attributes of a later release are passed over. Raises Unreadable, TooNew."""
    check_schema(row, "schedule")
    try:
        return Head(
            tenant=row["tenant"],
            name=row["name"],
            state=ScheduleState(row["state"]),
            revision=int(row["revision"]),
            version=int(row["version"]),
            job=row["job"],
            expression=row["expression"],
            timezone=row["timezone"],
            description=row.get("description", ""),
            tags=json.loads(row["tags"]) if "tags" in row else {},
            note=row.get("note"),
            resume_at=row.get("resume_at"),
            managed_by=row.get("managed_by"),
            failing=int(row.get("failing", 0)),
            failed_at=row.get("failed_at"),
            failed_run=row.get("failed_run"),
            incident=row.get("incident"),
            created_at=int(row["created_at"]),
            updated_at=int(row["updated_at"]),
        )
    except (*GARBAGE, MinutehandError) as problem:
        raise unreadable(f"schedule {row.get('tenant')}/{row.get('name')}", problem) from problem


def revision_row(revision: Revision) -> ControlRow:
    """A revision as a row."""
    definition = revision.definition
    return {
        "owner": revision.owner,
        "number": revision.number,
        "shard": revision.shard,
        "job": definition.job,
        "rule": json.dumps(definition.rule.as_dict()),
        "payload": definition.payload,
        "payload_ref": definition.payload_ref,
        "overrides": definition.overrides.encode(),
        "options": definition.options.encode(),
        "failing": revision.failing or None,
        "active_from": revision.active_from,
        "anchor": revision.anchor,
        **revision_end(revision),
    }


def revision_end(revision: Revision) -> ControlRow:
    """The attributes that are set once, when a revision ends."""
    closed_by = None if revision.closed_by is None else str(revision.closed_by)
    return {"active_until": revision.active_until, "closed_by": closed_by}


def revision_of(row: Mapping[str, Any]) -> Revision:
    """A revision from its row. Raises Unreadable, TooNew."""
    if "v" in row:
        check_schema(row, "revision")
    try:
        return _revision_of(row)
    except (*GARBAGE, MinutehandError) as problem:
        raise unreadable(f"revision {row.get('owner')}#{row.get('number')}", problem) from problem


def _revision_of(row: Mapping[str, Any]) -> Revision:
    tenant, _, name = row["owner"].partition("/")
    return Revision(
        tenant=tenant,
        name=name,
        number=row["number"],
        shard=int(row["shard"]),
        definition=Definition(
            job=row["job"],
            rule=from_json(row["rule"]),
            payload=row.get("payload"),
            payload_ref=row.get("payload_ref"),
            overrides=Overrides.parse(row.get("overrides")),
            options=Options.parse(row.get("options")),
        ),
        active_from=int(row["active_from"]),
        anchor=row.get("anchor"),
        active_until=row.get("active_until"),
        closed_by=ClosedBy(row["closed_by"]) if "closed_by" in row else None,
        failing=int(row.get("failing", 0)),
    )


def freeze_row(freeze: Freeze) -> ControlRow:
    """A freeze as a row among the revisions, so that workers read both in one batch."""
    owner, number = freeze_key(freeze.tenant)
    return {
        "owner": owner,
        "number": number,
        "until": freeze.until,
        "note": freeze.note,
        "created_at": freeze.created_at,
    }


def freeze_of(row: Mapping[str, Any]) -> Freeze:
    """The reverse of ``freeze_row``. Raises Unreadable."""
    try:
        return Freeze(
            tenant=row["owner"].partition("/")[0],
            until=int(row["until"]),
            note=row.get("note"),
            created_at=int(row["created_at"]),
        )
    except GARBAGE as problem:
        raise unreadable(f"freeze {row.get('owner')}", problem) from problem
