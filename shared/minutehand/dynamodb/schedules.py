"""Heads, revisions and freezes in DynamoDB.

An owner's change is one transaction, conditional on the head's version. So an active schedule always has its entry in the agenda, and
every revision belongs to a head. Ticker and worker read revisions in batches, without a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from minutehand.aws import ConditionFailed
from minutehand.domain.run import AgendaEntry
from minutehand.domain.schedule import ClosedBy, Freeze, Head, Revision, ScheduleState, is_freeze
from minutehand.domain.times import SECOND
from minutehand.dynamodb.records import dead_row, follows, record_row
from minutehand.dynamodb.rows import Item, entry_row, readable, to_item, to_row
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
from minutehand.dynamodb.table_client import TableClient
from minutehand.errors import Unreadable
from minutehand.ports.records import Record, RowPage
from minutehand.ports.schedules import IncidentChange, RevisionBatch, RevisionKey

if TYPE_CHECKING:  # PynamoDB is loaded by the first call that needs it
    from pynamodb.transactions import TransactWrite

    from minutehand.dynamodb.models import ControlModel, Models

_HISTORY = 50  # revisions read at a time


class DynamoSchedules:
    """Schedules in DynamoDB. ``models`` makes the models when they are first needed."""

    def __init__(self, revisions: TableClient, *, models: Callable[[], Models]) -> None:
        self._revisions, self._models = revisions, models

    # Reads.

    def revisions(self, keys: Iterable[RevisionKey]) -> RevisionBatch:
        items, unread = self._revisions.read(to_item({"owner": owner, "number": n}) for owner, n in set(keys))
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
        items = list(_heads(found))
        last = found.last_evaluated_key
        return RowPage(items=items, cursor=last["name"]["S"] if last else None)

    def all_heads(self) -> Iterator[Head]:
        return _heads(self._models().heads.scan(consistent_read=True))

    # Changes.

    def _transact(self, head: Head, expected: int, write: Callable[[TransactWrite], None]) -> bool:
        """One transaction that writes a head over the version that was read, and what else ``write`` adds."""

        def fill(transaction: TransactWrite) -> None:
            models, item = self._models(), self._models().heads.of(head_row(head))
            if expected:
                models.rewrite(transaction, item, models.heads.version == expected)
            else:
                transaction.save(item, condition=models.heads.tenant.does_not_exist())
            write(transaction)

        return self._models().transact(fill, head.owner)

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
        def write(transaction: TransactWrite) -> None:
            model = self._models().revisions
            transaction.save(model.of(revision_row(revision)), condition=model.owner.does_not_exist())
            if previous is not None:
                self._end(transaction, previous)
            self._put(transaction, entry, expect)
            self._remember(transaction, token)

        return self._transact(head, expected, write)

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
            if revision is not None:
                self._end(transaction, revision)
            self._put(transaction, entry)
            self._remember(transaction, token)

        return self._transact(head, expected, write)

    def note(self, note: IncidentChange) -> bool:
        models = self._models()

        def write(transaction: TransactWrite) -> None:
            if note.revision is not None:
                self._flag(transaction, note.revision, closes=note.closes)
            if note.dead is not None:
                line = models.dead.of(dead_row(note.dead, note.expires // SECOND))
                transaction.save(line, condition=models.dead.owner.does_not_exist())
            self._put(transaction, *note.entries)
            for record in note.records:
                models.rewrite(transaction, models.records.of(record_row(record)))

        return self._transact(note.head, note.expected, write)

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

    def _end(self, transaction: TransactWrite, revision: Revision) -> None:
        """Set the end of a revision that is open, or draining."""
        model = self._models().revisions
        item = model.of(_key(revision) | revision_end(revision))
        is_open = model.active_until.does_not_exist() | (model.closed_by == str(ClosedBy.DRAINED))
        self._models().rewrite(transaction, item, is_open)

    def _flag(self, transaction: TransactWrite, revision: Revision, *, closes: bool) -> None:
        """Write on a stored revision whether it fails; if the change ``closes`` it, set its end. It must be open then."""
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


def _revision_key(item: Item) -> RevisionKey:
    return item["owner"]["S"], int(item["number"]["N"])


def _heads(items: Iterable[ControlModel]) -> Iterator[Head]:
    return readable((item.attribute_values for item in items), head_of, "head.unreadable")
