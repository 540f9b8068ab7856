"""Heads and revisions in DynamoDB. Reads, which ticker, worker and auditor do, by boto3; what owners change, by ``control``.

``control`` works with PynamoDB, which costs a tenth of a second to import: it is imported when an owner changes something.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from minutehand.aws import Backoff, Client, ConditionFailed, TransactionRefused
from minutehand.concurrency.request_pool import RequestPool
from minutehand.domain.agenda_entry import AgendaEntry
from minutehand.domain.formats.schema import GARBAGE, check_schema, reading
from minutehand.domain.freeze import Freeze, is_freeze
from minutehand.domain.options import Options
from minutehand.domain.policies import Overrides
from minutehand.domain.schedule import ClosedBy, Definition, Head, Revision, ScheduleState
from minutehand.dynamodb import batches
from minutehand.dynamodb.freezes import freeze_of, freeze_row
from minutehand.dynamodb.incident_changes import items_of
from minutehand.dynamodb.rows import to_item, to_row
from minutehand.errors import MinutehandError, Unavailable
from minutehand.ports.page import RowPage
from minutehand.ports.records import Record
from minutehand.ports.schedules import IncidentChange, RevisionBatch, RevisionKey
from minutehand.settings import Settings
from minutehand.timing.rule import from_json

if TYPE_CHECKING:
    from minutehand.dynamodb.control import Control

log = logging.getLogger(__name__)

_HISTORY = 50  # revisions read at a time

_UNREADABLE = (*GARBAGE, MinutehandError)


class DynamoSchedules:
    """Schedules in DynamoDB."""

    def __init__(
        self, client: Client, settings: Settings, *, backoff: Backoff, pool: RequestPool | None = None
    ) -> None:
        self._client, self._settings, self._backoff = client, settings, backoff
        self._pool = pool
        self._revisions_table = settings.table("revisions")
        self._heads_table = settings.table("schedules")

    @cached_property
    def _control(self) -> Control:
        from minutehand.dynamodb.control import Control  # noqa: PLC0415 (see above)

        return Control(self._settings, backoff=self._backoff)

    # Reads.

    def head(self, tenant: str, name: str) -> Head | None:
        key = {"tenant": {"S": tenant}, "name": {"S": name}}
        answer = self._client.call("get_item", TableName=self._heads_table, Key=key, ConsistentRead=True)
        return _head(to_row(answer["Item"])) if "Item" in answer else None

    def revisions(self, keys: Iterable[RevisionKey]) -> RevisionBatch:
        wanted = [{"owner": {"S": owner}, "number": {"N": str(number)}} for owner, number in set(keys)]
        items, unread = batches.get(self._client, self._backoff, self._revisions_table, wanted, self._pool)
        found: dict[RevisionKey, Revision] = {}
        frozen: dict[str, Freeze] = {}
        broken: dict[RevisionKey, Exception] = {}
        for item in items:
            key = _revision_key(item)
            try:
                if is_freeze(key):
                    freeze = freeze_of(to_row(item))
                    frozen[freeze.tenant] = freeze
                else:
                    found[key] = _revision(to_row(item))
            except _UNREADABLE as problem:  # one bad item stops no other
                broken[key] = problem
        unanswered = frozenset(_revision_key(key) for key in unread)
        return RevisionBatch(found=found, broken=broken, unanswered=unanswered, frozen=frozen)

    def history(self, owner: str) -> Iterator[Revision]:
        request = _query(self._revisions_table, "owner", owner) | {"ScanIndexForward": False, "Limit": _HISTORY}
        for item in self._items("query", request):
            try:
                yield _revision(to_row(item))
            except _UNREADABLE as problem:
                log.error("revision.unreadable", extra={"owner": owner, "error": str(problem)})

    def page(self, tenant: str, *, prefix: str, limit: int, cursor: str | None) -> RowPage:
        request = _query(self._heads_table, "tenant", tenant)
        if prefix:
            request["KeyConditionExpression"] += " AND begins_with(#name, :prefix)"
            request["ExpressionAttributeNames"]["#name"] = "name"
            request["ExpressionAttributeValues"][":prefix"] = {"S": prefix}
        if cursor:
            request["ExclusiveStartKey"] = {"tenant": {"S": tenant}, "name": {"S": cursor}}
        answer = self._client.call("query", **request, Limit=limit)
        last = answer.get("LastEvaluatedKey")
        return RowPage(
            items=[head for item in answer["Items"] if (head := _readable_head(item)) is not None],
            cursor=last["name"]["S"] if last else None,
        )

    def all_heads(self) -> Iterator[Head]:
        for item in self._items("scan", {"TableName": self._heads_table, "ConsistentRead": True}):
            head = _readable_head(item)
            if head is not None:
                yield head

    def _items(self, operation: str, request: dict[str, Any]) -> Iterator[Mapping[str, Any]]:
        """All items of a query or scan, page by page."""
        while True:
            answer = self._client.call(operation, **request)
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            request = request | {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    # Changes.

    def freeze(self, freeze: Freeze) -> None:
        self._client.call("put_item", TableName=self._revisions_table, Item=to_item(freeze_row(freeze)))

    def arm(
        self,
        head: Head,
        *,
        expected: int,
        previous: Revision | None,
        revision: Revision,
        entry: AgendaEntry | None,
        expect: AgendaEntry | None = None,
        token: Record | None = None,
    ) -> bool:
        return self._control.arm(
            head, expected=expected, previous=previous, revision=revision, entry=entry, expect=expect, token=token
        )

    def close(
        self,
        head: Head,
        *,
        expected: int,
        revision: Revision | None,
        entry: AgendaEntry | None = None,
        token: Record | None = None,
    ) -> bool:
        return self._control.close(head, expected=expected, revision=revision, entry=entry, token=token)

    def note(self, note: IncidentChange) -> bool:
        items = items_of(note, self._settings)
        for _ in self._backoff.rounds_with_waits():
            try:
                self._client.call("transact_write_items", TransactItems=items)
                return True
            except TransactionRefused as refused:
                if refused.by_condition:
                    return False  # otherwise it met another transaction: again, and the conditions decide
        raise Unavailable(f"the head of {note.head.owner!r} met other writes again and again")

    def complete(self, tenant: str, name: str, *, revision: int, now: int, to: ScheduleState) -> bool:
        try:
            self._client.call(
                "update_item",
                TableName=self._heads_table,
                Key={"tenant": {"S": tenant}, "name": {"S": name}},
                UpdateExpression="SET #state = :over, #version = #version + :one, #updated = :now",
                ConditionExpression="#revision = :revision AND #state = :active",
                ExpressionAttributeNames={
                    "#state": "state",
                    "#version": "version",
                    "#updated": "updated_at",
                    "#revision": "revision",
                },
                ExpressionAttributeValues={
                    ":over": {"S": str(to)},
                    ":active": {"S": str(ScheduleState.ACTIVE)},
                    ":one": {"N": "1"},
                    ":now": {"N": str(now)},
                    ":revision": {"N": str(revision)},
                },
            )
        except ConditionFailed:
            return False
        return True


def _query(table: str, hash_key: str, value: str) -> dict[str, Any]:
    """A strongly consistent query of one partition."""
    return {
        "TableName": table,
        "ConsistentRead": True,
        "KeyConditionExpression": "#hash = :hash",
        "ExpressionAttributeNames": {"#hash": hash_key},
        "ExpressionAttributeValues": {":hash": {"S": value}},
    }


def _readable_head(item: Mapping[str, Any]) -> Head | None:
    """The head behind one item of many; one that cannot be read (of a later release, or garbage) hides no other."""
    try:
        return _head(to_row(item))
    except _UNREADABLE as problem:
        key = {name: item.get(name) for name in ("tenant", "name")}
        log.error("head.unreadable", extra={"head": str(key), "error": str(problem)})
        return None


def _head(row: Mapping[str, Any]) -> Head:
    """A head from its row; attributes of a later release are passed over. Raises Unreadable, TooNew."""
    with reading(f"schedule {row.get('tenant')}/{row.get('name')}", row):
        return _head_of(row)


def _head_of(row: Mapping[str, Any]) -> Head:
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


def _revision_key(item: Mapping[str, Mapping[str, Any]]) -> RevisionKey:
    return item["owner"]["S"], int(item["number"]["N"])


def _revision(row: Mapping[str, Any]) -> Revision:
    """A revision from its row. Raises Unreadable, TooNew."""
    if "v" in row:
        check_schema(row, "revision")
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
