"""The tables of an installation in memory, as one process sees them: conditions are evaluated by DynamoDB's rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from heapq import nsmallest
from math import ceil
from typing import Any
from zlib import crc32

from quarterjack.aws.errors import TransactionRefused, translated
from quarterjack.domain.names import RunRef
from quarterjack.dynamodb.statements import statement
from quarterjack.dynamodb.table_client import READS, STATEMENTS, WRITES
from quarterjack.errors import InvalidInput
from quarterjack.state.transition import Change, Condition, Once, Plus, holds
from quarterjack.stores.history.pages import UNIT, size_of
from quarterjack.stores.rows import present
from quarterjack.stores.tables import (
    AGENDA,
    RUNS,
    Answer,
    Row,
    RowQuery,
    RowTables,
    RowWrite,
    ScanPart,
    TableDefinition,
    TableRow,
)
from quarterjack.testing.memory.calls import Calls, MemoryTable

PAGE = 200  # rows of one query: DynamoDB's megabyte holds some 2,000, but small pages find more interleavings
_OPERATIONS = {"put": "PutItem", "update": "UpdateItem", "delete": "DeleteItem"}

CommitItems = Callable[
    [Sequence[Mapping[str, Any]]], frozenset[int]
]  # of jobs' own tables; the places that were refused
Content = Mapping[TableDefinition, MemoryTable[Any, Row]]  # the tables that all processes share


def no_tables(items: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Raises InvalidInput."""
    remedy = "pass Harness(dynamodb=client), a client of boto3 within moto's mock_aws() or of a local DynamoDB"
    raise InvalidInput("items", [*items], "are of tables that an installation in memory does not have", remedy)


def commit_items(client: Any, items: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Write a job's items: empty, or the places of those whose conditions do not hold."""
    try:
        client.transact_write_items(TransactItems=list(items))
    except Exception as problem:
        response = getattr(problem, "response", None)
        if not isinstance(response, dict):
            raise
        error = translated(response, "transact_write_items")
        if isinstance(error, TransactionRefused) and error.places:
            return error.places
        raise error from problem
    return frozenset()


class MemoryTables(RowTables):
    """Every request is one of ``calls``, whose hook sees it."""

    def __init__(self, calls: Calls, content: Content, commit_items: CommitItems = no_tables) -> None:
        self._calls, self._content, self._commit_items = calls, content, commit_items

    # Reads.

    def page(self, verb: str, query: RowQuery) -> tuple[list[Row], Any]:
        read = partial(self._content[query.table].page, query.partition, query.first, query.last)
        how = {"limit": query.limit or PAGE, "after": query.after, "backwards": query.newest_first}
        found = self._calls.one("Query", query.table.suffix, verb, partial(read, **how))
        if query.on_read is not None:
            query.on_read(max(1, ceil(sum(size_of(row) for _, row in found.items) / UNIT)))
        return [row for _, row in found.items if query.only is None or holds(query.only, row)], found.last

    def scan(
        self, verb: str, table: TableDefinition, *, only: Condition | None = None, part: tuple[int, int] | None = None
    ) -> Iterator[Row]:
        number, parts = part or (0, 1)

        def rows() -> list[Row]:
            return [row for of, _, row in self._content[table] if crc32(of.encode()) % parts == number]

        return (row for row in self._calls.one("Scan", table.suffix, verb, rows) if only is None or holds(only, row))

    def scan_parts(
        self,
        verb: str,
        table: TableDefinition,
        parts: Sequence[ScanPart],
        *,
        only: Condition | None,
        limit: int,
        eventual: bool = False,  # noqa: ARG002 (in memory every read is strong)
    ) -> list[tuple[list[Row], Row | None]]:
        def page(part: ScanPart) -> tuple[list[Row], Row | None]:
            after = None if part.after is None else tuple(table.key_of(part.after).values())
            places = (
                (of, key, row)
                for of, key, row in self._content[table]
                if crc32(of.encode()) % part.parts == part.number and (after is None or (of, key) > after)
            )
            rows = [row for _, _, row in nsmallest(limit, places, key=lambda place: place[:2])]
            last = table.key_of(rows[-1]) if len(rows) == limit else None
            return [row for row in rows if only is None or holds(only, row)], last

        return [self._calls.one("Scan", table.suffix, verb, partial(page, part)) for part in parts]

    def get(self, verb: str, table: TableDefinition, **key: str | int) -> Row | None:
        return self._calls.one("GetItem", table.suffix, verb, lambda: self._stored(table, key), _item(table, key))

    def read_across(self, verb: str, keys: Sequence[TableRow]) -> tuple[list[TableRow], list[TableRow]]:
        items = [_item(table, key) for table, key in keys]
        place = keys[0][0].suffix if keys else ""
        rows = self._calls.many("BatchGetItem", place, verb, items, lambda i: self._stored(*keys[i]), most=READS)
        found = [(keys[i][0], row) for i, row in rows.items() if row is not None]
        return found, [key for i, key in enumerate(keys) if i not in rows]

    def _stored(self, table: TableDefinition, key: Row) -> Row | None:
        return self._content[table].get(*table.key_of(key).values())

    # Writes.

    def write(self, verb: str, write: RowWrite, *, returning: bool = False) -> Answer:
        del returning  # a row that is returned without need is harmless
        operation, item = _OPERATIONS[write.kind], _item(write.table, write.row)
        return self._calls.one(operation, write.table.suffix, verb, lambda: self._apply(write), item)

    def _apply(self, write: RowWrite) -> Answer:
        table, (partition, key) = self._content[write.table], write.key.values()
        stored = table.get(partition, key)
        if not self._holds(write):
            return False, stored
        if write.kind == "delete":
            table.delete(partition, key)
            return True, None
        row = changed_row({} if write.kind == "put" else stored or {}, write.row)
        table.put(partition, key, row)
        return True, row

    def _holds(self, write: RowWrite) -> bool:
        return write.only_if is None or holds(write.only_if, self._stored(write.table, write.key) or {})

    def copy(self, verb: str, table: TableDefinition, key: Row, marks: Row) -> None:
        row = present((self._stored(table, key) or {}) | marks)
        partition, place = table.key_of(row).values()
        put = partial(self._content[table].put, partition, place, row)
        self._calls.one("PutItem", table.suffix, verb, put, _item(table, key))

    def write_all(
        self, verb: str, writes: Sequence[RowWrite], *, returning: Collection[int] = (), pooled: bool = False
    ) -> Mapping[int, Answer]:
        del returning, pooled
        for write in writes:
            statement("", write)  # raises where PartiQL cannot express it
        return self._batch("BatchExecuteStatement", verb, writes, STATEMENTS)

    def store(self, verb: str, writes: Sequence[RowWrite]) -> frozenset[str]:
        distinct = list({str(write.key): write for write in writes}.values())
        stored = self._batch("BatchWriteItem", verb, distinct, WRITES)
        return frozenset(str(distinct[i].row[distinct[i].table.range_key]) for i in stored)

    def _batch(self, operation: str, verb: str, writes: Sequence[RowWrite], most: int) -> dict[int, Answer]:
        items = [_item(write.table, write.row) for write in writes]
        place = writes[0].table.suffix if writes else ""
        return self._calls.many(operation, place, verb, items, lambda i: self._apply(writes[i]), most=most)

    def store_all(self, verb: str, writes: Sequence[RowWrite]) -> Sequence[RowWrite]:
        stored = self._batch("BatchWriteItem", verb, writes, WRITES)
        return [write for place, write in enumerate(writes) if place not in stored]

    def commit(
        self, verb: str, writes: Sequence[RowWrite], items: Sequence[Mapping[str, Any]], about: str
    ) -> frozenset[int]:
        del about
        place, item = writes[0].table.suffix, _item(writes[0].table, writes[0].row)
        effect = partial(self._commit_rows, writes, items)
        return self._calls.one("TransactWriteItems", place, verb, effect, item, token=True)

    def _commit_rows(self, writes: Sequence[RowWrite], items: Sequence[Mapping[str, Any]]) -> frozenset[int]:
        """Apply all writes, or none. The places of those that are refused, behind the writes those of ``items``."""
        refused = {place for place, write in enumerate(writes) if not self._holds(write)}
        refused |= {len(writes) + place for place in ([] if refused or not items else self._commit_items(items))}
        for write in () if refused else writes:
            if write.kind != "check":
                self._apply(write)
        return frozenset(refused)


def _item(table: TableDefinition, row: Mapping[str, Any]) -> Any:
    """What the hook sees of a key."""
    if table is RUNS:
        return RunRef(row["owner"], row["key"])
    return row["entry"] if table is AGENDA else tuple(table.key_of(row).values())


def changed_row(row: Row, changes: Mapping[str, Change]) -> Row:
    """A row with changes made."""
    changed = dict(row)
    for name, change in changes.items():
        match change:
            case None:
                changed.pop(name, None)
            case Plus(amount):
                changed[name] = row.get(name, 0) + amount
            case Once(value):
                changed.setdefault(name, value)
            case str():
                changed[name] = str(change)
            case _:
                changed[name] = change
    return changed
