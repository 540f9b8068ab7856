"""Heads, revisions and freezes in DynamoDB.

An owner's change is one transaction, conditional on the head not having moved: so an active schedule without its entry in the agenda
cannot exist, nor a revision that no head knows of. Ticker and worker read revisions in batches, over our own client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from minutehand.aws import BatchBackoff, Client, ConditionFailed
from minutehand.concurrency.request_pool import RequestPool
from minutehand.domain.agenda_entry import AgendaEntry
from minutehand.domain.freeze import Freeze, is_freeze
from minutehand.domain.schedule import ClosedBy, Head, Revision, ScheduleState
from minutehand.domain.times import SECOND
from minutehand.dynamodb import batches
from minutehand.dynamodb.dead_index import dead_row
from minutehand.dynamodb.records import follows, record_row
from minutehand.dynamodb.rows import entry_row, readable, to_row
from minutehand.dynamodb.schedule_rows import (
    ControlRow,
    freeze_of,
    freeze_row,
    head_of,
    head_row,
    revision_end,
    revision_of,
    revision_row,
)
from minutehand.errors import Unreadable
from minutehand.ports.page import RowPage
from minutehand.ports.records import Record
from minutehand.ports.schedules import IncidentChange, RevisionBatch, RevisionKey

if TYPE_CHECKING:  # PynamoDB is loaded by the first call that needs it
    from pynamodb.transactions import TransactWrite

    from minutehand.dynamodb.models import Models

_HISTORY = 50  # revisions read at a time


class DynamoSchedules:
    """Schedules in DynamoDB. ``models`` makes the models when they are first needed."""

    def __init__(
        self,
        client: Client,
        table: str,
        *,
        models: Callable[[], Models],
        backoff: BatchBackoff,
        pool: RequestPool | None = None,
    ) -> None:
        self._client, self._table, self._models, self._backoff = client, table, models, backoff
        self._pool = pool

    # Reads.

    def revisions(self, keys: Iterable[RevisionKey]) -> RevisionBatch:
        wanted = [{"owner": {"S": owner}, "number": {"N": str(number)}} for owner, number in set(keys)]
        items, unread = batches.get(self._client, self._backoff, self._table, wanted, self._pool)
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
                    found[key] = revision_of(to_row(item))
            except Unreadable as problem:  # one bad item stops no other
                broken[key] = problem
        unanswered = frozenset(_revision_key(key) for key in unread)
        return RevisionBatch(found=found, broken=broken, unanswered=unanswered, frozen=frozen)

    def head(self, tenant: str, name: str) -> Head | None:
        models = self._models()
        row = models.read(models.heads, tenant, name)
        return None if row is None else head_of(row)

    def history(self, owner: str) -> Iterator[Revision]:
        found = self._models().revisions.query(
            owner, consistent_read=True, scan_index_forward=False, page_size=_HISTORY
        )
        return readable((item.attribute_values for item in found), revision_of, "revision.unreadable")

    def page(self, tenant: str, *, prefix: str, limit: int, cursor: str | None) -> RowPage:
        heads = self._models().heads
        found = heads.query(
            tenant,
            heads.name.startswith(prefix) if prefix else None,
            consistent_read=True,
            limit=limit,
            last_evaluated_key={"tenant": {"S": tenant}, "name": {"S": cursor}} if cursor else None,
        )
        items = list(_readable_heads(item.attribute_values for item in found))
        last = found.last_evaluated_key
        return RowPage(items=items, cursor=last["name"]["S"] if last else None)

    def all_heads(self) -> Iterator[Head]:
        return _readable_heads(item.attribute_values for item in self._models().heads.scan(consistent_read=True))

    # Changes.

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
        models = self._models()

        def write(transaction: TransactWrite) -> None:
            self._move_head(transaction, head, expected)
            made = models.revisions.of(revision_row(revision))
            transaction.save(made, condition=models.revisions.owner.does_not_exist())
            if previous is not None:
                self._end(transaction, previous)
            self._put(transaction, entry, expect)
            self._remember(transaction, token)

        return models.transact(write, head.owner)

    def close(
        self,
        head: Head,
        *,
        expected: int,
        revision: Revision | None,
        entry: AgendaEntry | None = None,
        token: Record | None = None,
    ) -> bool:
        def write(transaction: TransactWrite) -> None:
            self._move_head(transaction, head, expected)
            if revision is not None:
                self._end(transaction, revision)
            self._put(transaction, entry)
            self._remember(transaction, token)

        return self._models().transact(write, head.owner)

    def note(self, note: IncidentChange) -> bool:
        models = self._models()

        def write(transaction: TransactWrite) -> None:
            self._move_head(transaction, note.head, note.expected)
            if note.revision is not None:
                self._flag(transaction, note.revision, closes=note.closes)
            if note.dead is not None:
                line = models.dead.of(dead_row(note.dead, note.expires // SECOND))
                transaction.save(line, condition=models.dead.owner.does_not_exist())
            self._put(transaction, *note.entries)
            for record in note.records:
                models.rewrite(transaction, models.records.of(record_row(record)))

        return models.transact(write, note.head.owner)

    def complete(self, tenant: str, name: str, *, revision: int, now: int, to: ScheduleState) -> bool:
        heads = self._models().heads
        item = heads(tenant, name, state=str(to), updated_at=now)
        is_current = (heads.revision == revision) & (heads.state == str(ScheduleState.ACTIVE))
        try:
            self._models().update(item, is_current, heads.version.add(1))
        except ConditionFailed:
            return False
        return True

    def freeze(self, freeze: Freeze) -> None:
        models = self._models()
        models.update(models.freezes.of(freeze_row(freeze)))

    # Parts of a transaction.

    def _move_head(self, transaction: TransactWrite, head: Head, expected: int) -> None:
        """Write a head over the version that was read."""
        models, item = self._models(), self._models().heads.of(head_row(head))
        if expected:
            models.rewrite(transaction, item, models.heads.version == expected)
        else:
            transaction.save(item, condition=models.heads.tenant.does_not_exist())

    def _end(self, transaction: TransactWrite, revision: Revision) -> None:
        """Set the end of a revision that is open, or draining."""
        model = self._models().revisions
        item = model.of(_key(revision) | revision_end(revision))
        is_open = model.active_until.does_not_exist() | (model.closed_by == str(ClosedBy.DRAINED))
        self._models().rewrite(transaction, item, is_open)

    def _flag(self, transaction: TransactWrite, revision: Revision, *, closes: bool) -> None:
        """Note on a revision that is there whether it fails, and set its end if it is open."""
        model = self._models().revisions
        row, condition = _key(revision) | {"failing": revision.failing or None}, model.shard.exists()
        if closes:
            row |= revision_end(revision)
            condition &= model.active_until.does_not_exist()
        self._models().rewrite(transaction, model.of(row), condition)

    def _put(self, transaction: TransactWrite, *entries: AgendaEntry | None) -> None:
        for entry in entries:
            if entry is not None:
                transaction.save(self._models().entries.of(entry_row(entry)))

    def _remember(self, transaction: TransactWrite, token: Record | None) -> None:
        """Put a client token's record, as ``Records.write`` would."""
        if token is not None:
            models = self._models()
            models.rewrite(transaction, models.records.of(record_row(token)), follows(models, token))


def _key(revision: Revision) -> ControlRow:
    return {"owner": revision.owner, "number": revision.number}


def _revision_key(item: Mapping[str, Mapping[str, Any]]) -> RevisionKey:
    return item["owner"]["S"], int(item["number"]["N"])


def _readable_heads(rows: Iterable[Mapping[str, Any]]) -> Iterator[Head]:
    return readable(rows, head_of, "head.unreadable")
