"""Tables in memory that count what is read from them as DynamoDB bills it, and end a page of a query where DynamoDB ends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, TypeVar

from quarterjack.state.transition import holds
from quarterjack.stores.tables import RUNS, Row, RowQuery, TableDefinition, TableRow
from quarterjack.testing import Memory
from quarterjack.testing.memory.calls import Calls, MemoryTable
from quarterjack.testing.memory.stream import StreamedTable
from quarterjack.testing.memory.tables import MemoryTables

UNIT = 4_096  # bytes of a strong read that cost one unit; twice as many of an eventual one
PAGE = 1_048_576  # bytes after which a query ends
_Runs = TypeVar("_Runs", bound=StreamedTable)
_NUMBER = 8  # bytes: about what DynamoDB stores of a time in milliseconds


@dataclass
class ReadCount:
    """What was read since it was made, or reset."""

    units: float = 0.0
    requests: int = 0
    by_verb: Counter[str] = field(default_factory=Counter)  # units by the method of the port that read

    def add(self, verb: str, sizes: Sequence[int], *, strong: bool = True) -> None:
        """One request that read items of so many bytes, counted together."""
        self._add(verb, [sum(sizes)], strong=strong)

    def add_each(self, verb: str, sizes: Sequence[int]) -> None:
        """One batch: each item is rounded up by itself."""
        self._add(verb, sizes, strong=True)

    def _add(self, verb: str, sizes: Sequence[int], *, strong: bool) -> None:
        units = sum(max(1, ceil(size / UNIT)) for size in sizes) * (1.0 if strong else 0.5)
        self.units += units
        self.by_verb[verb] += int(units)
        self.requests += 1

    def reset(self) -> None:
        """Begin again."""
        self.units, self.requests = 0.0, 0
        self.by_verb.clear()


class CountedTables(MemoryTables):
    """``count`` gets every read."""

    def __init__(self, count: ReadCount, *given: Any) -> None:
        super().__init__(*given)
        self._count = count

    def page(self, verb: str, query: RowQuery) -> tuple[list[Row], Any]:
        """See ``RowTables``. The condition is about rows that were read, and are billed."""
        rows, last = super().page(verb, replace(query, only=None, limit=query.limit or PAGE))
        sizes = [size_of(row) for row in rows]
        total = 0
        for place, size in enumerate(sizes, 1):
            total += size
            if total >= PAGE and place < len(rows):
                rows, sizes, last = rows[:place], sizes[:place], rows[place - 1][query.table.range_key]
                break
        self._count.add(verb, sizes, strong=not query.eventual)
        return [row for row in rows if query.only is None or holds(query.only, row)], last

    def get(self, verb: str, table: TableDefinition, **key: str | int) -> Row | None:
        """See ``RowTables``."""
        found = super().get(verb, table, **key)
        self._count.add(verb, [size_of(found or {})])
        return found

    def read_across(self, verb: str, keys: Sequence[TableRow]) -> tuple[list[TableRow], list[TableRow]]:
        """See ``RowTables``."""
        found, unread = super().read_across(verb, keys)
        missing = [0] * (len(keys) - len(found) - len(unread))
        if keys:
            self._count.add_each(verb, [size_of(row) for _, row in found] + missing)
        return found, unread


class CountedMemory(Memory):
    """An installation whose reads are counted in ``reads``."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.reads = ReadCount()

    def table(self, definition: TableDefinition) -> MemoryTable[Any, Row]:
        """The rows themselves, to fill a table without requests."""
        return self._tables[definition]

    def replace_runs(self, runs: _Runs) -> _Runs:
        """Use this as the table of runs, before anything is written."""
        self._tables, self._runs = {**self._tables, RUNS: runs}, runs
        return runs

    def _tables_of(self, calls: Calls) -> MemoryTables:
        return CountedTables(self.reads, calls, self._tables, self._commit_items)


def size_of(row: Mapping[str, Any]) -> int:
    """Bytes of a row as DynamoDB counts them: names and values."""
    return sum(len(name) + _length(value) for name, value in row.items() if value is not None)


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, (bytes, bytearray)):
        return len(value)
    return sum(map(_length, value)) + 3 if isinstance(value, Collection) else _NUMBER
