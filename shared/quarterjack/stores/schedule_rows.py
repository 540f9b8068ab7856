"""Heads, revisions and freezes as rows and back. None stands for an attribute that is not stored."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, fields
from typing import Any

from quarterjack.domain.options import Options
from quarterjack.domain.policies import Overrides
from quarterjack.domain.schedule import (
    ClosedBy,
    Definition,
    Freeze,
    FrozenKind,
    FrozenPart,
    Head,
    Revision,
    ScheduleState,
    freeze_key,
)
from quarterjack.domain.tenants.profile import Governance
from quarterjack.errors import NotFound, TooNew, Unavailable, Unreadable
from quarterjack.stores.rows import readable, reads
from quarterjack.stores.tables import Row
from quarterjack.timing.rule import from_json
from quarterjack.values import value

log = logging.getLogger(__name__)

RevisionKey = tuple[str, int]  # owner, number
_KEPT = 256  # definitions of pipelines that a process remembers

_HEAD = [each.name for each in fields(Head)]
_NUMBERS = ("revision", "version", "counts_from", "failing", "created_at", "updated_at", "retired_at", "paused_at")


def revision_key(owner: str, number: int) -> Row:
    """The key of a revision's row."""
    return {"owner": owner, "number": number}


def revision_key_of(row: Row) -> RevisionKey:
    """The reverse of ``revision_key``."""
    return row["owner"], row["number"]


def head_row(head: Head) -> Row:
    """A head as a row; its attributes have the names of the fields."""
    return vars(head) | {
        "state": str(head.state),
        "description": head.description or None,
        "tags": json.dumps(dict(head.tags)) if head.tags else None,
        "failing": head.failing or None,
        "clearing": head.clearing or None,
    }


@reads("schedule {tenant}/{name}")
def head_of(row: Mapping[str, Any]) -> Head:
    """A head from its row; attributes of a later release are ignored. Raises Unreadable, TooNew."""
    values = {name: row[name] for name in _HEAD if name in row}
    values |= {name: int(values[name]) for name in _NUMBERS if name in values}
    return Head(**values | {"state": ScheduleState(row["state"]), "tags": json.loads(row.get("tags", "{}"))})


def revision_row(revision: Revision) -> Row:
    """A revision as a row."""
    definition = revision.definition
    return revision_end(revision) | {
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
        "actor": revision.actor,
    }


def revision_end(revision: Revision) -> Row:
    """The key, and the attributes that are set once, when a revision ends."""
    closed_by = None if revision.closed_by is None else str(revision.closed_by)
    return revision_key(revision.owner, revision.number) | {
        "active_until": revision.active_until,
        "closed_by": closed_by,
    }


@reads("revision {owner}#{number}")
def revision_of(row: Mapping[str, Any]) -> Revision:
    """A revision from its row. Raises Unreadable, TooNew."""
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
        actor=row.get("actor"),
    )


def freeze_row(freeze: Freeze) -> Row:
    """A freeze as a row among the revisions, so that workers read both in one batch."""
    return revision_key(*freeze_key(freeze.tenant)) | {
        "until": freeze.until,
        "reason": freeze.reason,
        "created_at": freeze.created_at,
        "actor": freeze.actor,
        "parts": json.dumps([dict(vars(part)) for part in freeze.parts]) if freeze.parts else None,
        "version": freeze.version or None,
    }


@reads("freeze {owner}")
def freeze_of(row: Mapping[str, Any]) -> Freeze:
    """The reverse of ``freeze_row``. Raises Unreadable, TooNew."""
    return Freeze(
        tenant=row["owner"].partition("/")[0],
        until=int(row["until"]),
        reason=row.get("reason"),
        created_at=int(row["created_at"]),
        actor=row.get("actor"),
        parts=tuple(_part(one) for one in json.loads(row.get("parts", "[]"))),
        version=int(row.get("version", 0)),
    )


def _part(given: Mapping[str, Any]) -> FrozenPart:
    return FrozenPart(
        kind=FrozenKind(given["kind"]),
        value=given["value"],
        label=given["label"],
        since=given["since"],
        until=given["until"],
        per_minute=given["per_minute"],
        rest_until=given["rest_until"],
        reason=given.get("reason"),
        actor=given.get("actor"),
    )


def readable_heads(rows: Iterable[Row], unread: dict[str, Unreadable] | None = None) -> Iterator[Head]:
    """The heads of rows. ``unread`` gets the problems of the others, by owner."""
    into = {} if unread is None else unread
    return readable(
        rows, head_of, "head.unreadable", lambda row, why: into.update({f"{row['tenant']}/{row['name']}": why})
    )


# Batches, and what a process remembers.


@value(kw_only=True)
class RevisionBatch:
    """The answer to a batch read: a key that is neither found nor unanswered nor broken does not exist."""

    found: Mapping[RevisionKey, Revision] = field(default_factory=dict)
    unanswered: frozenset[RevisionKey] = frozenset()
    broken: Mapping[RevisionKey, Unreadable] = field(default_factory=dict)  # items that cannot be read as a revision
    frozen: Mapping[str, Freeze] = field(default_factory=dict)  # by tenant, as far as they were asked for
    governance: Mapping[str, Governance] = field(default_factory=dict)  # of the tenants asked for, as far as known
    read_at: int = 0  # UTC ms at which the reader asked, by its clock

    def tell_broken(self, key: RevisionKey, **about: object) -> bool:
        """Whether an item is there that cannot be read as a revision; the log says so: a later release, or a person, handles it."""
        problem = self.broken.get(key)
        if problem is None:
            return False
        told = {**about, "revision": key[1], "error": str(problem)}
        if isinstance(problem, TooNew):
            log.warning("revision.too_new", extra=told)
        else:
            log.error("revision.unreadable", extra=told)
        return True


class Definitions:
    """The definitions of revisions, which never change: each end of a task needs that of its pipeline."""

    def __init__(self, read: Callable[[Iterable[RevisionKey]], RevisionBatch]) -> None:
        self._read, self._known = read, OrderedDict[RevisionKey, Definition]()

    def of(self, owner: str, number: int) -> Definition:
        """The definition of a revision. Raises NotFound, Unavailable."""
        key = owner, number
        known = self._known.get(key)
        if known is None:
            answer = self._read([key])
            if key in answer.unanswered or key in answer.broken:
                raise Unavailable(f"revision {number} of {owner!r} could not be read; try again")
            if key not in answer.found:
                raise NotFound(f"revision {number} of {owner!r} is missing; run the auditor")
            known = self._known[key] = answer.found[key].definition
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return known
