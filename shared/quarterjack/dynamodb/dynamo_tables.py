"""Tables in DynamoDB: single requests and transactions with expressions, and PartiQL statements in batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from quarterjack.aws import ConditionFailed
from quarterjack.concurrency.pools import RequestPool
from quarterjack.dynamodb.expressions import expressions
from quarterjack.dynamodb.items import to_item, to_row
from quarterjack.dynamodb.statements import statement
from quarterjack.dynamodb.table_client import TableClient, check_tables, send
from quarterjack.errors import Unavailable
from quarterjack.state.transition import Change, Condition
from quarterjack.stores.rows import present
from quarterjack.stores.tables import (
    Answer,
    JobItems,
    Row,
    RowQuery,
    RowTables,
    RowWrite,
    ScanPart,
    TableDefinition,
    TableRow,
)

_OPERATIONS = {"put": "put_item", "update": "update_item", "delete": "delete_item"}
_PARTS = {"put": "Put", "update": "Update", "delete": "Delete", "check": "ConditionCheck"}  # of a transaction
_ROW, _UNIT = 500, 4_096  # bytes of a row, about; and of one read unit


class DynamoTables(RowTables):
    """The tables by their definitions. ``batched``: by PartiQL; else a request for each item, for engines without it."""

    def __init__(self, tables: Mapping[TableDefinition, TableClient], *, batched: bool = True) -> None:
        self._tables, self._batched = tables, batched
        self.client = next(iter(tables.values())).client  # of all tables

    # Reads.

    def page(self, verb: str, query: RowQuery) -> tuple[list[Row], Any]:
        del verb
        table = query.table
        arguments: dict[str, Any] = {
            "ConsistentRead": not query.eventual,
            "ScanIndexForward": not query.newest_first,
        }
        arguments |= expressions(KeyConditionExpression=query, FilterExpression=query.only)
        if query.limit is not None:
            arguments["Limit"] = query.limit
        if query.after is not None:
            start = {table.hash_key: query.partition, table.range_key: query.after}
            arguments["ExclusiveStartKey"] = to_item(start)
        if query.on_read is not None:
            arguments["ReturnConsumedCapacity"] = "TOTAL"
        answer = self._call("query", table, **arguments)
        if query.on_read is not None:
            query.on_read(_units_of(answer))
        end = answer.get("LastEvaluatedKey")
        return [to_row(item) for item in answer["Items"]], to_row(end)[table.range_key] if end else None

    def first_pages(self, verb: str, queries: Sequence[RowQuery]) -> list[tuple[list[Row], Any]]:
        return self._tables[queries[0].table].pool.map(lambda query: (self.page(verb, query), 0), queries)

    def scan(
        self, verb: str, table: TableDefinition, *, only: Condition | None = None, part: tuple[int, int] | None = None
    ) -> Iterator[Row]:
        del verb
        arguments: dict[str, Any] = expressions(FilterExpression=only)
        arguments |= {"ConsistentRead": True} if part is None else {"Segment": part[0], "TotalSegments": part[1]}
        while True:
            answer = self._call("scan", table, **arguments)
            yield from map(to_row, answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            arguments["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def scan_parts(
        self,
        verb: str,
        table: TableDefinition,
        parts: Sequence[ScanPart],
        *,
        only: Condition | None,
        limit: int,
        eventual: bool = False,
    ) -> list[tuple[list[Row], Row | None]]:
        del verb
        shared: dict[str, Any] = expressions(FilterExpression=only) | {"ConsistentRead": not eventual, "Limit": limit}

        def read(part: ScanPart) -> tuple[tuple[list[Row], Row | None], int]:
            place: dict[str, Any] = {"Segment": part.number, "TotalSegments": part.parts}
            start = {} if part.after is None else {"ExclusiveStartKey": to_item(part.after)}
            answer = self._call("scan", table, **shared, **place, **start)
            end = answer.get("LastEvaluatedKey")
            return ([to_row(item) for item in answer["Items"]], to_row(end) if end else None), 0

        return self._tables[table].pool.map(read, parts)

    def get(self, verb: str, table: TableDefinition, **key: str | int) -> Row | None:
        del verb
        item = self._item(table, key)
        return None if item is None else to_row(item)

    def _item(self, table: TableDefinition, key: Row) -> dict[str, Any] | None:
        answer = self._call("get_item", table, Key=to_item(key), ConsistentRead=True)
        item: dict[str, Any] | None = answer.get("Item")
        return item

    def read_across(self, verb: str, keys: Sequence[TableRow]) -> tuple[list[TableRow], list[TableRow]]:
        del verb
        if not keys:
            return [], []
        first = self._tables[keys[0][0]]
        named = {self._tables[table].name: table for table, _ in keys}
        items, unread = first.read([(self._tables[table].name, to_item(key)) for table, key in keys])
        return [(named[name], to_row(item)) for name, item in items], [
            (named[name], to_row(key)) for name, key in unread
        ]

    # Writes.

    def write(self, verb: str, write: RowWrite, *, returning: bool = False) -> Answer:
        del verb
        more = {"ReturnValues": "ALL_NEW"} if returning else {}
        if write.only_if is not None:
            more["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        try:
            request = self._arguments(write) | more
            answer = self.client.call(_OPERATIONS[write.kind], **request)
        except ConditionFailed as refused:
            return False, to_row(refused.item) if refused.item else None
        return True, to_row(answer["Attributes"]) if "Attributes" in answer else None

    def copy(self, verb: str, table: TableDefinition, key: Row, marks: Row) -> None:
        del verb
        self._call("put_item", table, Item=(self._item(table, key) or {}) | to_item(marks))

    def write_all(
        self, verb: str, writes: Sequence[RowWrite], *, returning: Collection[int] = (), pooled: bool = False
    ) -> Mapping[int, Answer]:
        if not writes:
            return {}
        table = self._tables[writes[0].table]
        if not self._batched:
            return self._one_by_one(verb, writes, table.pool if pooled else RequestPool())
        statements = [statement(table.name, write, returning=i in returning) for i, write in enumerate(writes)]
        return table.execute(statements, pooled=pooled)

    def _one_by_one(self, verb: str, writes: Sequence[RowWrite], pool: RequestPool) -> Mapping[int, Answer]:
        def attempt(write: RowWrite) -> tuple[Answer | None, int]:
            try:
                return self.write(verb, write, returning=write.kind == "update"), 0
            except Unavailable:
                return None, 1

        answers = enumerate(pool.map(attempt, writes))
        return {index: answer for index, answer in answers if answer is not None}

    def store(self, verb: str, writes: Sequence[RowWrite]) -> frozenset[str]:
        del verb
        requests = {str(write.row[write.table.range_key]): _request(write) for write in writes}
        return self._tables[writes[0].table].write(requests) if writes else frozenset()

    def store_all(self, verb: str, writes: Sequence[RowWrite]) -> Sequence[RowWrite]:
        del verb
        left = self._tables[writes[0].table].write_all([_request(write) for write in writes]) if writes else ()
        return [writes[place] for place in left]

    def commit(self, verb: str, writes: Sequence[RowWrite], items: JobItems, about: str) -> frozenset[int]:
        del verb
        check_tables(items, (table.name for table in self._tables.values()))
        own = [{_PARTS[write.kind]: self._arguments(write)} for write in writes]
        return send(self.client, self._tables[writes[0].table].backoff, [*own, *items], about)

    def _arguments(self, write: RowWrite) -> dict[str, Any]:
        what = {"Item": to_item(present(write.row))} if write.kind == "put" else {"Key": to_item(write.key)}
        changes = _changes(write) if write.kind == "update" else {}
        found = expressions(changes, ConditionExpression=write.only_if)
        return {"TableName": self._tables[write.table].name, **what, **found}

    def _call(self, operation: str, table: TableDefinition, **arguments: Any) -> dict[str, Any]:
        return self.client.call(operation, TableName=self._tables[table].name, **arguments)


def _request(write: RowWrite) -> dict[str, Any]:
    """A put or delete as a part of BatchWriteItem."""
    if write.kind == "put":
        return {"PutRequest": {"Item": to_item(present(write.row))}}
    return {"DeleteRequest": {"Key": to_item(write.key)}}


def _changes(write: RowWrite) -> dict[str, Change]:
    keys = (write.table.hash_key, write.table.range_key)
    return {name: change for name, change in write.row.items() if name not in keys}


def _units_of(answer: Mapping[str, Any]) -> float:
    """Read units of a query; of an engine that does not say, an estimate."""
    known = answer.get("ConsumedCapacity", {}).get("CapacityUnits")
    return float(known) if known is not None else max(1.0, answer.get("ScannedCount", 0) * _ROW / _UNIT)
