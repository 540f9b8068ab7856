"""The index of dead runs in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minutehand.domain.run import DeadRunRow, partitions
from minutehand.domain.times import SECOND
from minutehand.dynamodb.records import dead_row, readable_dead
from minutehand.dynamodb.table_client import WRITES
from minutehand.state.transition import Condition, holds
from minutehand.testing.memory.calls import Calls, MemoryTable, Row

PAGE = 200  # lines of one query at most


class MemoryDeadIndex:
    """Dead runs in memory, in the ledger's table."""

    def __init__(self, calls: Calls, rows: MemoryTable[str, Row]) -> None:
        self._calls, self._rows = calls, rows

    def put(self, dead: DeadRunRow, *, expires: int) -> bool:
        def insert() -> bool:
            if self._rows.get(dead.owner, dead.key) is not None:
                return False
            self._rows.put(dead.owner, dead.key, dead_row(dead, expires // SECOND))
            return True

        return self._calls.one("PutItem", "runs", "index", insert, dead.key)

    def read(
        self, tenant: str, *, after: int, upto: int, only: Condition | None, before: str | None, page: int | None
    ) -> Iterator[DeadRunRow]:
        for keys in partitions(tenant, after=after, upto=upto, before=before):
            rows = self._calls.pages(self._rows, "runs", "read_dead", keys, limit=page or PAGE, backwards=True)
            wanted = (row for row in rows if (only is None or holds(only, row)) and row["key"] != before)
            yield from readable_dead(wanted)

    def mark(self, dead: DeadRunRow, *, redriven_as: str) -> bool:
        def write() -> bool:
            row = self._rows.get(dead.owner, dead.key)
            if row is not None:
                self._rows.put(dead.owner, dead.key, row | {"redriven_as": redriven_as})
            return row is not None

        return self._calls.one("UpdateItem", "runs", "mark_redriven", write, dead.key)

    def remove(self, dead: Sequence[DeadRunRow]) -> frozenset[str]:
        keys = [line.key for line in dead]
        removed = self._calls.many(
            "BatchWriteItem",
            "runs",
            "remove_dead",
            keys,
            lambda i: self._rows.delete(dead[i].owner, keys[i]),
            most=WRITES,
        )
        return frozenset(keys[i] for i in removed)
