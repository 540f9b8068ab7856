"""Heads and revisions in DynamoDB: PynamoDB for the control plane, boto3 in batches where ticker and worker read revisions."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.connection import Connection
from pynamodb.exceptions import DoesNotExist, PynamoDBException
from pynamodb.transactions import TransactWrite

from minutehand.aws import Backoff, Client, ConditionFailed, TransactionRefused, translated
from minutehand.errors import MinutehandError, Unavailable
from minutehand.flow.ports import Page, Record, RevisionKey, Revisions
from minutehand.model.entry import Entry
from minutehand.model.options import Options
from minutehand.model.policies import Overrides
from minutehand.model.schedule import ClosedBy, Definition, Head, Revision, ScheduleState
from minutehand.schedule.rule import from_json
from minutehand.settings import Settings
from minutehand.store import batches
from minutehand.store.models import EntryItem, HeadItem, RecordItem, RevisionItem, bound
from minutehand.store.records import record_row
from minutehand.store.rows import shard_key, to_row

_T = TypeVar("_T")
log = logging.getLogger(__name__)

_HISTORY = 50  # revisions read at a time

# What reading a foreign item may raise.
_UNREADABLE = (ArithmeticError, AttributeError, KeyError, MinutehandError, RecursionError, TypeError, ValueError)


class DynamoSchedules:
    """Schedules in DynamoDB."""

    def __init__(self, client: Client, settings: Settings, *, backoff: Backoff) -> None:
        self._client, self._backoff = client, backoff
        self._heads = bound(HeadItem, "schedules", settings)
        self._revisions = bound(RevisionItem, "revisions", settings)
        self._entries = bound(EntryItem, "agenda", settings)
        self._records = bound(RecordItem, "runs", settings)
        self._revisions_table = settings.table("revisions")
        self._heads_table = settings.table("schedules")
        self._connection = Connection(region=settings.region, host=settings.endpoint)

    # Reads.

    def head(self, tenant: str, name: str) -> Head | None:
        try:
            return _head(_call(lambda: self._heads.get(tenant, name, consistent_read=True)))
        except DoesNotExist:
            return None

    def revisions(self, keys: Iterable[RevisionKey]) -> Revisions:
        wanted = [{"owner": {"S": owner}, "number": {"N": str(number)}} for owner, number in set(keys)]
        items, unread = batches.get(self._client, self._backoff, self._revisions_table, wanted)
        found: dict[RevisionKey, Revision] = {}
        broken: dict[RevisionKey, Exception] = {}
        for item in items:
            key = _revision_key(item)
            try:
                found[key] = _revision(to_row(item))
            except _UNREADABLE as problem:  # one bad item stops no other
                broken[key] = problem
        unanswered = frozenset(_revision_key(key) for key in unread)
        return Revisions(found=found, broken=broken, unanswered=unanswered)

    def history(self, owner: str) -> Iterator[Revision]:
        request: dict[str, Any] = {
            "TableName": self._revisions_table,
            "ConsistentRead": True,
            "ScanIndexForward": False,
            "Limit": _HISTORY,
            "KeyConditionExpression": "#owner = :owner",
            "ExpressionAttributeNames": {"#owner": "owner"},
            "ExpressionAttributeValues": {":owner": {"S": owner}},
        }
        while True:
            answer = self._client.call("query", **request)
            for item in answer["Items"]:
                try:
                    yield _revision(to_row(item))
                except _UNREADABLE as problem:
                    log.error("revision.unreadable", extra={"owner": owner, "error": str(problem)})
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def page(self, tenant: str, *, prefix: str, limit: int, cursor: str | None) -> Page:
        condition = self._heads.name.startswith(prefix) if prefix else None
        start = {"tenant": {"S": tenant}, "name": {"S": cursor}} if cursor else None
        result = self._heads.query(
            tenant, condition, limit=limit, page_size=limit, last_evaluated_key=start, consistent_read=True
        )
        heads = _call(lambda: [head for item in result if (head := _readable_head(item)) is not None])
        last = result.last_evaluated_key
        return Page(items=heads, cursor=last["name"]["S"] if last else None)

    def all_heads(self) -> Iterator[Head]:
        items = iter(self._heads.scan(consistent_read=True))
        while True:
            try:
                head = _call(lambda: _readable_head(next(items)))
            except StopIteration:
                return
            if head is not None:
                yield head

    # Transactions.

    def arm(
        self,
        head: Head,
        *,
        expected: int,
        previous: Revision | None,
        revision: Revision,
        entry: Entry | None,
        token: Record | None = None,
    ) -> bool:
        with_entry = [] if entry is None else [self._entry_item(entry)]

        def write(transaction: TransactWrite) -> None:
            transaction.save(self._head_item(head), condition=self._head_is(expected))
            transaction.save(self._revision_item(revision), condition=self._revisions.owner.does_not_exist())
            if previous is not None:
                self._close(transaction, previous)
            for item in with_entry:
                transaction.save(item)
            self._remember(transaction, token)

        return self._transact(write)

    def close(self, head: Head, *, expected: int, revision: Revision | None, token: Record | None = None) -> bool:
        def write(transaction: TransactWrite) -> None:
            transaction.save(self._head_item(head), condition=self._head_is(expected))
            if revision is not None:
                self._close(transaction, revision)
            self._remember(transaction, token)

        return self._transact(write)

    def _transact(self, write: Callable[[TransactWrite], None]) -> bool:
        def run() -> None:
            with TransactWrite(connection=self._connection) as transaction:
                write(transaction)

        for _ in self._backoff.rounds_with_waits():
            try:
                _call(run)
                return True
            except TransactionRefused as refused:
                if refused.by_condition:
                    return False  # otherwise it met another transaction: again, and the conditions decide
        return False

    def _close(self, transaction: TransactWrite, revision: Revision) -> None:
        model = self._revisions
        open_ = model.active_until.does_not_exist()
        draining = model.closed_by == str(ClosedBy.DRAINED)
        transaction.update(
            model(revision.owner, revision.number),
            actions=[
                model.active_until.set(revision.active_until or 0),
                model.closed_by.set(str(revision.closed_by)),
            ],
            condition=open_ | draining,
        )

    def _remember(self, transaction: TransactWrite, token: Record | None) -> None:
        """Put a client token's record; its version is conditional as in ``Records.write``."""
        if token is not None:
            model, before = self._records, token.version - 1
            transaction.save(
                model(**record_row(token)),
                condition=model.version == before if before else model.version.does_not_exist(),
            )

    def _head_is(self, version: int) -> Any:
        return self._heads.version == version if version else self._heads.tenant.does_not_exist()

    def complete(self, tenant: str, name: str, *, revision: int, now: int) -> bool:
        try:
            self._client.call(
                "update_item",
                TableName=self._heads_table,
                Key={"tenant": {"S": tenant}, "name": {"S": name}},
                UpdateExpression="SET #state = :completed, #version = #version + :one, #updated = :now",
                ConditionExpression="#revision = :revision AND #state = :active",
                ExpressionAttributeNames={
                    "#state": "state",
                    "#version": "version",
                    "#updated": "updated_at",
                    "#revision": "revision",
                },
                ExpressionAttributeValues={
                    ":completed": {"S": str(ScheduleState.COMPLETED)},
                    ":active": {"S": str(ScheduleState.ACTIVE)},
                    ":one": {"N": "1"},
                    ":now": {"N": str(now)},
                    ":revision": {"N": str(revision)},
                },
            )
        except ConditionFailed:
            return False
        return True

    # Items.

    def _head_item(self, head: Head) -> HeadItem:
        return self._heads(
            head.tenant,
            head.name,
            state=str(head.state),
            revision=head.revision,
            version=head.version,
            job=head.job,
            expression=head.expression,
            timezone=head.timezone,
            description=head.description or None,
            tags=json.dumps(dict(head.tags)) if head.tags else None,
            note=head.note,
            resume_at=head.resume_at,
            managed_by=head.managed_by,
            failing=head.failing or None,
            failed_at=head.failed_at,
            failed_run=head.failed_run,
            incident=head.incident,
            created_at=head.created_at,
            updated_at=head.updated_at,
        )

    def _revision_item(self, revision: Revision) -> RevisionItem:
        definition = revision.definition
        return self._revisions(
            revision.owner,
            revision.number,
            shard=revision.shard,
            job=definition.job,
            rule=json.dumps(definition.rule.as_dict()),
            payload=definition.payload,
            payload_ref=definition.payload_ref,
            overrides=definition.overrides.encode(),
            options=definition.options.encode(),
            failing=revision.failing or None,
            active_from=revision.active_from,
            anchor=revision.anchor,
            active_until=revision.active_until,
            closed_by=None if revision.closed_by is None else str(revision.closed_by),
        )

    def _entry_item(self, entry: Entry) -> EntryItem:
        return self._entries(shard_key(entry.shard), entry.key, after=entry.after)


def _readable_head(item: HeadItem) -> Head | None:
    """The head behind one item of many; one that cannot be read (of a later release, or garbage) hides no other."""
    try:
        return _head(item)
    except _UNREADABLE as problem:
        log.error("head.unreadable", extra={"tenant": item.tenant, "schedule": item.name, "error": str(problem)})
        return None


def _head(item: HeadItem) -> Head:
    return Head(
        tenant=item.tenant,
        name=item.name,
        state=ScheduleState(item.state),
        revision=int(item.revision),
        version=int(item.version),
        job=item.job,
        expression=item.expression,
        timezone=item.timezone,
        description=item.description or "",
        tags=json.loads(item.tags) if item.tags else {},
        note=item.note,
        resume_at=None if item.resume_at is None else int(item.resume_at),
        managed_by=item.managed_by,
        failing=int(item.failing or 0),
        failed_at=None if item.failed_at is None else int(item.failed_at),
        failed_run=item.failed_run,
        incident=item.incident,
        created_at=int(item.created_at),
        updated_at=int(item.updated_at),
    )


def _revision_key(item: Mapping[str, Mapping[str, Any]]) -> RevisionKey:
    return item["owner"]["S"], int(item["number"]["N"])


def _revision(row: Mapping[str, Any]) -> Revision:
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


def _call(function: Callable[[], _T]) -> _T:
    """PynamoDB's errors as ours; the cause that botocore gave is kept."""
    try:
        return function()
    except DoesNotExist:
        raise
    except PynamoDBException as problem:
        cause = problem.cause
        if isinstance(cause, ClientError):
            # PynamoDB's copy of botocore's error has lost why a transaction was cancelled.
            original = cause.__cause__ if isinstance(cause.__cause__, ClientError) else cause
            raise translated(original, type(problem).__name__) from problem
        raise Unavailable(f"{type(problem).__name__}: {problem}") from problem
    except ClientError as problem:
        raise translated(problem, "dynamodb") from problem
    except BotoCoreError as problem:
        raise Unavailable(f"dynamodb: {problem}") from problem
