"""Heads and revisions in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from minutehand.domain.run import AgendaEntry
from minutehand.domain.schedule import ClosedBy, Freeze, Head, Revision, ScheduleState, freeze_key
from minutehand.domain.times import SECOND
from minutehand.dynamodb.records import dead_row
from minutehand.dynamodb.table_client import READS
from minutehand.ports.page import RowPage
from minutehand.ports.records import Record
from minutehand.ports.schedules import IncidentChange, RevisionBatch, RevisionKey
from minutehand.testing.memory.agenda import AgendaState
from minutehand.testing.memory.calls import Calls, MemoryTable, Row
from minutehand.testing.memory.records import put_record, rewrite_record

HISTORY = 50  # revisions read at a time


@dataclass
class ScheduleTables:
    """The tables that all processes share."""

    heads: MemoryTable[str, Head] = field(default_factory=MemoryTable)
    # Revision or Freeze; an Exception stands for an item that cannot be read.
    revisions: MemoryTable[int, Any] = field(default_factory=MemoryTable)


class MemorySchedules:
    """Heads and revisions in memory, as one process sees them."""

    def __init__(self, calls: Calls, tables: ScheduleTables, agenda: AgendaState, rows: MemoryTable[str, Row]) -> None:
        self._calls, self._tables, self._agenda, self._rows = calls, tables, agenda, rows

    # Reads.

    def head(self, tenant: str, name: str) -> Head | None:
        return self._calls.one(
            "GetItem", "schedules", "head", lambda: self._tables.heads.get(tenant, name), (tenant, name)
        )

    def revisions(self, keys: Iterable[RevisionKey]) -> RevisionBatch:
        wanted = sorted(set(keys))
        answers = self._calls.many(
            "BatchGetItem",
            "revisions",
            "revisions",
            wanted,
            lambda i: self._tables.revisions.get(*wanted[i]),
            most=READS,
        )
        return RevisionBatch(
            found={wanted[i]: item for i, item in answers.items() if isinstance(item, Revision)},
            broken={wanted[i]: item for i, item in answers.items() if isinstance(item, Exception)},
            frozen={item.tenant: item for item in answers.values() if isinstance(item, Freeze)},
            unanswered=frozenset(key for i, key in enumerate(wanted) if i not in answers),
        )

    def history(self, owner: str) -> Iterator[Revision]:
        keys = (owner, 0, 10**15)
        found = self._calls.pages(self._tables.revisions, "revisions", "history", keys, limit=HISTORY, backwards=True)
        return (item for item in found if isinstance(item, Revision))

    def page(self, tenant: str, *, prefix: str, limit: int, cursor: str | None) -> RowPage:
        query = partial(self._tables.heads.page, tenant, prefix, f"{prefix}\x7f", limit=limit, after=cursor)
        found = self._calls.one("Query", "schedules", "page", query)
        return RowPage(items=[head for _, head in found.items], cursor=found.last)

    def all_heads(self) -> Iterator[Head]:
        return iter(
            self._calls.one("Scan", "schedules", "all_heads", lambda: [head for _, _, head in self._tables.heads])
        )

    def freeze(self, freeze: Freeze) -> None:
        key = freeze_key(freeze.tenant)
        self._calls.one("UpdateItem", "revisions", "freeze", lambda: self._tables.revisions.put(*key, freeze), key)

    # Transactions.

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
        def write() -> bool:
            taken = self._tables.revisions.get(revision.owner, revision.number) is not None
            if taken or not self._may_move(head, expected, previous) or not put_record(self._rows, token):
                return False
            self._move(head, previous)
            self._tables.revisions.put(revision.owner, revision.number, revision)
            self._put(entry, expect)
            return True

        return self._transaction("arm", head, write)

    def close(
        self,
        head: Head,
        *,
        expected: int,
        revision: Revision | None,
        entry: AgendaEntry | None = None,
        token: Record | None = None,
    ) -> bool:
        def write() -> bool:
            if not self._may_move(head, expected, revision) or not put_record(self._rows, token):
                return False
            self._move(head, revision)
            self._put(entry)
            return True

        return self._transaction("close", head, write)

    def _transaction(self, verb: str, head: Head, write: Callable[[], bool]) -> bool:
        return self._calls.one("TransactWriteItems", "schedules", verb, write, (head.tenant, head.name), token=True)

    def note(self, note: IncidentChange) -> bool:
        def write() -> bool:
            head, dead = note.head, note.dead
            taken = dead is not None and self._rows.get(dead.owner, dead.key) is not None
            if taken or not self._may_move(head, note.expected, note.revision if note.closes else None):
                return False
            self._tables.heads.put(head.tenant, head.name, replace(head, tags=dict(head.tags)))
            if note.revision is not None:
                self._tables.revisions.put(note.revision.owner, note.revision.number, note.revision)
            if dead is not None:
                self._rows.put(dead.owner, dead.key, dead_row(dead, note.expires // SECOND))
            self._put(*note.entries)
            for record in note.records:
                rewrite_record(self._rows, record)
            return True

        return self._transaction("note", note.head, write)

    def _put(self, *entries: AgendaEntry | None) -> None:
        for entry in entries:
            if entry is not None:
                self._agenda.put(entry)

    def _may_move(self, head: Head, expected: int, closing: Revision | None) -> bool:
        """Whether the head has the expected version, and the revision to close is open or draining."""
        stored = self._tables.heads.get(head.tenant, head.name)
        if (stored.version if stored is not None else 0) != expected:
            return False
        if closing is None:
            return True
        present = self._tables.revisions.get(closing.owner, closing.number)
        return present is not None and (present.active_until is None or present.closed_by is ClosedBy.DRAINED)

    def _move(self, head: Head, closing: Revision | None) -> None:
        self._tables.heads.put(head.tenant, head.name, replace(head, tags=dict(head.tags)))
        if closing is not None:
            present: Revision = self._tables.revisions.get(closing.owner, closing.number)  # type: ignore[assignment]
            closed = replace(present, active_until=closing.active_until, closed_by=closing.closed_by)
            self._tables.revisions.put(closing.owner, closing.number, closed)

    def complete(self, tenant: str, name: str, *, revision: int, now: int, to: ScheduleState) -> bool:
        def write() -> bool:
            head = self._tables.heads.get(tenant, name)
            if head is None or head.revision != revision or head.state is not ScheduleState.ACTIVE:
                return False
            done = replace(head, state=to, version=head.version + 1, updated_at=now)
            self._tables.heads.put(tenant, name, done)
            return True

        return self._calls.one("UpdateItem", "schedules", "complete", write, (tenant, name))
