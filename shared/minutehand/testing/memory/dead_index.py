"""The index of dead runs in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minutehand.domain.dead_run import DeadRunRow, partitions
from minutehand.domain.times import SECOND
from minutehand.dynamodb.dead_index import dead_row, readable_dead
from minutehand.state.conditions import Condition, holds
from minutehand.testing.memory.calls import Calls, Detail, by_count
from minutehand.testing.memory.tables import MemoryTable, Row

PAGE = 200  # lines of one query at the most
WRITES = 25


class MemoryDeadIndex:
    """Dead runs in memory, in the ledger's table."""

    def __init__(self, calls: Calls, rows: MemoryTable[str, Row]) -> None:
        self._calls, self._rows = calls, rows

    def put(self, dead: DeadRunRow, *, expires: int) -> bool:
        def insert() -> bool:
            if self._rows.get(dead.owner, dead.key) is not None:
                return False
            self._rows.put(dead.owner, dead.key, dict(dead_row(dead, expires // SECOND)))
            return True

        return self._calls.one("PutItem", Detail(place="runs", verb="index", items=(dead.key,)), insert)

    def read(
        self, tenant: str, *, after: int, upto: int, only: Condition | None, before: str | None, page: int | None
    ) -> Iterator[DeadRunRow]:
        for owner, first, last in partitions(tenant, after=after, upto=upto, before=before):
            rows = self._query(owner, first, last, page or PAGE)
            wanted = (row for row in rows if (only is None or holds(only, row)) and row["key"] != before)
            yield from readable_dead(wanted)

    def _query(self, owner: str, first: str, last: str, page: int) -> Iterator[Row]:
        start: str | None = None
        while True:
            found = self._calls.one(
                "Query",
                Detail(place="runs", verb="read_dead"),
                lambda start=start: self._rows.page(owner, first, last, limit=page, after=start, backwards=True),  # type: ignore[misc]
            )
            yield from (row for _, row in found.items)
            if found.last is None:
                return
            start = found.last

    def mark(self, dead: DeadRunRow, *, redriven_as: str) -> bool:
        def write() -> bool:
            row = self._rows.get(dead.owner, dead.key)
            if row is not None:
                self._rows.put(dead.owner, dead.key, row | {"redriven_as": redriven_as})
            return row is not None

        return self._calls.one("UpdateItem", Detail(place="runs", verb="mark_redriven", items=(dead.key,)), write)

    def remove(self, dead: Sequence[DeadRunRow]) -> frozenset[str]:
        detail = Detail(place="runs", verb="remove_dead", items=tuple(line.key for line in dead))
        answers = self._calls.many(
            "BatchWriteItem",
            detail,
            lambda i: self._rows.delete(dead[i].owner, dead[i].key),
            batches=by_count(WRITES),
        )
        return frozenset(dead[place].key for place in answers)
