"""The ledger in memory: transitions are applied to rows by the rules by which DynamoDB evaluates conditions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from zlib import crc32

from minutehand.domain.names import RunRef
from minutehand.domain.run import WAITING, RunRow, RunState
from minutehand.dynamodb.expressions import update_statement
from minutehand.dynamodb.row_ledger import Moves, RowLedger
from minutehand.dynamodb.rows import (
    readable_runs,
)
from minutehand.dynamodb.table_client import READS, STATEMENTS
from minutehand.ports.ledger import BesideKind
from minutehand.state.transition import Condition, Once, Plus, Transition, holds
from minutehand.testing.memory.calls import Calls, MemoryTable, Row

PAGE = 200  # rows of one query: DynamoDB's megabyte holds some 2,000, but small pages find more interleavings


class MemoryLedger(RowLedger):
    """Runs in memory, as one process sees them. ``retention`` in ms."""

    def __init__(self, calls: Calls, rows: MemoryTable[str, Row], *, retention: int) -> None:
        super().__init__(retention)
        self._calls, self._rows = calls, rows

    # Claims.

    def _insert_all(self, rows: Sequence[Row]) -> Mapping[int, Row | None]:
        refs = [RunRef(row["owner"], row["key"]) for row in rows]
        return self._calls.many(
            "BatchExecuteStatement", "runs", "claim", refs, lambda i: self._put_new(refs[i], rows[i]), most=STATEMENTS
        )

    def _put_new(self, ref: RunRef, row: Row) -> Row | None:
        """Put a row unless its key exists; the row that is stored under the key already."""
        stored = self._rows.get(*ref)
        if stored is None:
            self._rows.put(*ref, row)
        return stored

    def _insert(self, row: Row, sibling: Row | None) -> bool:
        ref = RunRef(row["owner"], row["key"])

        def put() -> bool:
            stored = self._put_new(ref, row)
            if stored is None and sibling is not None:
                self._rows.put(sibling["owner"], sibling["key"], sibling)
            return stored is None

        operation = "PutItem" if sibling is None else "TransactWriteItems"
        return self._calls.one(operation, "runs", "submit", put, ref, token=sibling is not None)

    # Transitions.

    def _update(self, ref: RunRef, transition: Transition) -> tuple[bool, Row | None]:
        return self._calls.one("UpdateItem", "runs", transition.name, lambda: self._write(ref, transition), ref)

    def _write(self, ref: RunRef, transition: Transition) -> tuple[bool, Row | None]:
        row = self._rows.get(*ref)
        if row is None or not holds(transition.guard, row):
            return False, row
        changed = changed_row(row, transition)
        self._rows.put(*ref, changed)
        return True, changed

    def _update_all(self, moves: Moves, *, returning: Collection[RunRef] = ()) -> Mapping[int, tuple[bool, Row | None]]:
        del returning  # a row that is brought without need is harmless
        for ref, transition in moves:
            update_statement("runs", ref, transition)  # raises where PartiQL cannot express it
        verb = moves[0][1].name if moves else "move_all"
        refs = [ref for ref, _ in moves]
        return self._calls.many(
            "BatchExecuteStatement", "runs", verb, refs, lambda i: self._write(*moves[i]), most=STATEMENTS
        )

    def _expire(self, ref: RunRef, expires: int) -> None:
        def write() -> None:
            self._rows.put(*ref, (self._rows.get(*ref) or {}) | {"ttl": expires})

        self._calls.one("UpdateItem", "runs", "expire_payload", write, ref)

    # Reads.

    def _get(self, ref: RunRef, verb: str) -> Row | None:
        return self._calls.one("GetItem", "runs", verb, lambda: self._rows.get(*ref), ref)

    def _get_all(self, refs: Sequence[RunRef]) -> tuple[Mapping[RunRef, Row], frozenset[RunRef]]:
        rows = self._calls.many("BatchGetItem", "runs", "look", refs, lambda i: self._rows.get(*refs[i]), most=READS)
        unread = frozenset(ref for i, ref in enumerate(refs) if i not in rows)
        return {refs[i]: row for i, row in rows.items() if row is not None}, unread

    def unfinished(self, *, segment: int, segments: int) -> Iterator[RunRow]:
        states = [*WAITING, RunState.RUNNING]

        def scan() -> list[Row]:
            return [row for owner, _, row in self._rows if crc32(owner.encode()) % segments == segment]

        rows = self._calls.one("Scan", "runs", "unfinished", scan)
        return readable_runs(row for row in rows if row.get("state") in states)

    def _query(
        self,
        verb: str,
        owner: str,
        first: str,
        last: str,
        *,
        only: RunState | None,
        newest_first: bool,
        page: int | None,
        start: str | None,
    ) -> Iterator[Row]:
        rows = self._calls.pages(
            self._rows, "runs", verb, (owner, first, last), limit=page or PAGE, after=start, backwards=newest_first
        )
        return (row for row in rows if only is None or row.get("state") == only)

    # Siblings of a run.

    def _put(self, row: Row) -> None:
        ref = RunRef(row["owner"], row["key"])
        self._calls.one("PutItem", "runs", "record", lambda: self._rows.put(*ref, row), ref)

    def _put_beside(self, ref: RunRef, kind: BesideKind, guard: Condition, row: Row) -> bool:
        def put() -> bool:
            run, sibling = self._rows.get(*ref), self._rows.get(row["owner"], row["key"])
            if run is None or not holds(guard, run) or (kind is BesideKind.STEP and sibling is not None):
                return False
            self._rows.put(row["owner"], row["key"], row)
            return True

        return self._calls.one("TransactWriteItems", "runs", f"keep {kind}", put, ref, token=True)

    def _siblings(self, owner: str, prefix: str) -> list[Row]:
        return list(self._calls.pages(self._rows, "runs", "beside", (owner, prefix, f"{prefix}~")))


def changed_row(row: Row, transition: Transition) -> Row:
    """A row with a transition's changes made."""
    changed = dict(row)
    for name, change in transition.changes.items():
        match change:
            case None:
                changed.pop(name, None)
            case Plus(amount):
                changed[name] = row[name] + amount
            case Once(value):
                changed.setdefault(name, value)
            case str():
                changed[name] = str(change)
            case _:
                changed[name] = change
    return changed
