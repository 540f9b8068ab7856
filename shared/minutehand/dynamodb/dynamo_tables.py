"""Tables in DynamoDB: conditions and changes as expressions of its own operations, and as PartiQL statements in batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from minutehand.aws import ConditionFailed, TransactionRefused
from minutehand.concurrency.pools import RequestPool
from minutehand.dynamodb.rows import encode, present, to_item, to_row
from minutehand.dynamodb.table_client import TableClient
from minutehand.dynamodb.tables import Answer, Row, RowQuery, RowTables, RowWrite, TableDefinition
from minutehand.errors import Unavailable
from minutehand.state.transition import Absent, AllOf, AnyOf, Change, Compare, Condition, Once, OneOf, Plus, Value

_OPERATIONS = {"put": "put_item", "update": "update_item", "delete": "delete_item"}
_PARTS = {"put": "Put", "update": "Update", "delete": "Delete", "check": "ConditionCheck"}  # of a transaction
# Every claim has these values. They are literals in the statement's text, which is made once, and not parameters, which
# are serialised one by one: a tenth of a tick's processor time.
_LITERALS: Mapping[str, tuple[Value, str]] = {"state": ("QUEUED", "'QUEUED'"), "fence": (0, "0"), "attempt": (0, "0")}


class DynamoTables(RowTables):
    """The tables by their definitions. ``batched``: by PartiQL; else a request for each item, for engines without it."""

    def __init__(self, tables: Mapping[TableDefinition, TableClient], *, batched: bool = True) -> None:
        self._tables, self._batched = tables, batched
        self.client = next(iter(tables.values())).client  # of all tables

    # Reads.

    def page(self, verb: str, query: RowQuery) -> tuple[list[Row], Any]:
        del verb
        table, words = query.table, ExpressionWords()
        words.values = {"partition": query.partition, "first": query.first, "last": query.last}
        arguments: dict[str, Any] = {
            "KeyConditionExpression": f"#{table.hash_key} = :partition AND #{table.range_key} BETWEEN :first AND :last",
            "ConsistentRead": True,
            "ScanIndexForward": not query.newest_first,
        }
        if query.only is not None:
            arguments["FilterExpression"] = condition(query.only, words)
        if query.limit is not None:
            arguments["Limit"] = query.limit
        if query.after is not None:
            start = {table.hash_key: query.partition, table.range_key: query.after}
            arguments["ExclusiveStartKey"] = to_item(start)
        answer = self._tables[table].call("query", values=words.values, **arguments)
        end = answer.get("LastEvaluatedKey")
        return [to_row(item) for item in answer["Items"]], to_row(end)[table.range_key] if end else None

    def scan(
        self, verb: str, table: TableDefinition, *, only: Condition | None = None, part: tuple[int, int] | None = None
    ) -> Iterator[Row]:
        del verb
        words = ExpressionWords()
        arguments: dict[str, Any] = {} if only is None else {"FilterExpression": condition(only, words)}
        arguments |= {"ConsistentRead": True} if part is None else {"Segment": part[0], "TotalSegments": part[1]}
        while True:
            answer = self._tables[table].call("scan", values=words.values, **arguments)
            yield from map(to_row, answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            arguments["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def get(self, verb: str, table: TableDefinition, **key: str | int) -> Row | None:
        del verb
        item = self._item(table, key)
        return None if item is None else to_row(item)

    def _item(self, table: TableDefinition, key: Row) -> dict[str, Any] | None:
        answer = self._tables[table].call("get_item", Key=to_item(key), ConsistentRead=True)
        item: dict[str, Any] | None = answer.get("Item")
        return item

    def read(self, verb: str, table: TableDefinition, keys: Sequence[Row]) -> tuple[list[Row], list[Row]]:
        del verb
        items, unread = self._tables[table].read(map(to_item, keys))
        return [to_row(item) for item in items], [to_row(key) for key in unread]

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
        self._tables[table].call("put_item", Item=(self._item(table, key) or {}) | to_item(marks))

    def write_all(
        self, verb: str, writes: Sequence[RowWrite], *, returning: Collection[int] = (), pooled: bool = False
    ) -> Mapping[int, Answer]:
        if not writes:
            return {}
        table = self._tables[writes[0].table]
        if not self._batched:
            return self._one_by_one(verb, writes, table.pool if pooled else RequestPool())
        statements = [statement(table.name, write, returning=i in returning) for i, write in enumerate(writes)]
        results = table.execute(statements, pooled=pooled)
        return {i: (not result.refused, result.row or None) for i, result in results.items()}

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
        requests = {
            str(write.row[write.table.range_key]): (
                {"PutRequest": {"Item": to_item(present(write.row))}}
                if write.kind == "put"
                else {"DeleteRequest": {"Key": to_item(write.key)}}
            )
            for write in writes
        }
        return self._tables[writes[0].table].write(requests) if writes else frozenset()

    def transact(self, verb: str, writes: Sequence[RowWrite], about: str) -> bool:
        del verb
        table, items = self._tables[writes[0].table], [{_PARTS[w.kind]: self._arguments(w)} for w in writes]
        for _ in table.backoff.rounds_with_waits():
            try:
                self.client.call("transact_write_items", TransactItems=items)
            except TransactionRefused as refused:
                if refused.by_condition:
                    return False
            else:
                return True
        raise Unavailable(f"{about} met other writes again and again; try again")

    def _arguments(self, write: RowWrite) -> dict[str, Any]:
        words, row = ExpressionWords(), write.row
        arguments: dict[str, Any] = (
            {"Item": to_item(present(row))} if write.kind == "put" else {"Key": to_item(write.key)}
        )
        if write.kind == "update":
            arguments["UpdateExpression"] = update(_changes(write), words)
        if write.only_if is not None:
            arguments["ConditionExpression"] = condition(write.only_if, words)
        return self._tables[write.table].arguments(values=words.values, **arguments)


class ExpressionWords:
    """The words of an expression. It collects the values that the expression refers to: ``:v0`` stands for ``values["v0"]``."""

    absent, one_of = "attribute_not_exists({})", "{} IN ({})"

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}

    def name(self, attribute: str) -> str:
        return f"#{attribute}"

    def value(self, value: Value) -> str:
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    def either(self, parts: list[str]) -> str:
        return f"({' OR '.join(parts)})"


class StatementWords(ExpressionWords):
    """The words of a PartiQL statement; its values are parameters by their place."""

    absent, one_of = "{} IS MISSING", "{} IN [{}]"

    def __init__(self) -> None:
        self.parameters: list[dict[str, Any]] = []

    def name(self, attribute: str) -> str:
        return f'"{attribute}"'

    def value(self, value: Value) -> str:
        self.parameters.append(encode(value))
        return "?"

    def either(self, parts: list[str]) -> str:
        raise TypeError(f"a batched guard has no alternatives, not {parts}: not every engine reads OR beside the key")


def condition(clause: Condition, words: ExpressionWords) -> str:
    """A clause in the words of an expression or statement."""
    match clause:
        case Compare(attribute, symbol, value):
            return f"{words.name(attribute)} {symbol} {words.value(value)}"
        case OneOf(attribute, values):
            return words.one_of.format(words.name(attribute), ", ".join(map(words.value, values)))
        case Absent(attribute):
            return words.absent.format(words.name(attribute))
        case AllOf(parts):
            return " AND ".join([condition(part, words) for part in parts])
        case AnyOf(parts):
            return words.either([condition(part, words) for part in parts])


def update(changes: Mapping[str, Change], words: ExpressionWords) -> str:
    """Changes as an update expression."""
    clauses: dict[str, list[str]] = {"SET": [], "REMOVE": [], "ADD": []}
    for name, change in changes.items():
        match change:
            case None:
                clauses["REMOVE"].append(f"#{name}")
            case Plus(amount):
                clauses["ADD"].append(f"#{name} {words.value(amount)}")
            case Once(value):
                clauses["SET"].append(f"#{name} = if_not_exists(#{name}, {words.value(value)})")
            case _:
                clauses["SET"].append(f"#{name} = {words.value(change)}")
    return " ".join(f"{word} {', '.join(parts)}" for word, parts in clauses.items() if parts)


def _changes(write: RowWrite) -> dict[str, Change]:
    keys = (write.table.hash_key, write.table.range_key)
    return {name: change for name, change in write.row.items() if name not in keys}


def statement(table: str, write: RowWrite, *, returning: bool = False) -> dict[str, Any]:
    """A put of a new row, or an update with plain changes and a guard of ANDed clauses, as a PartiQL statement.

    ``returning`` the new row. Raises TypeError for another write.
    """
    if write.kind == "put":
        text, parameters = _insert(table, present(write.row))
    else:
        text, parameters = _update(table, write)
        text += " RETURNING ALL NEW *" if returning else ""
    return {"Statement": text, "Parameters": parameters, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


def _insert(table: str, row: Row) -> tuple[str, list[dict[str, Any]]]:
    literal = all(row.get(name) == value for name, (value, _) in _LITERALS.items())
    parameters = [encode(value) for name, value in row.items() if not (literal and name in _LITERALS)]
    return _insert_text(table, tuple(row), literal), parameters


@lru_cache(maxsize=64)
def _insert_text(table: str, names: tuple[str, ...], literal: bool) -> str:  # noqa: FBT001 (a cache key)
    fields = (f"'{name}': {_LITERALS[name][1] if literal and name in _LITERALS else '?'}" for name in names)
    return f'INSERT INTO "{table}" VALUE {{{", ".join(fields)}}}'


def _update(table: str, write: RowWrite) -> tuple[str, list[dict[str, Any]]]:
    words, changed = StatementWords(), []
    for name, change in _changes(write).items():
        if isinstance(change, (Plus, Once)):
            raise TypeError(f"an update of {write.key} cannot be batched: {name} depends on the row")
        changed.append(f'REMOVE "{name}"' if change is None else f'SET "{name}"={words.value(change)}')
    words.parameters += to_item(write.key).values()
    keys = f'"{write.table.hash_key}"=? AND "{write.table.range_key}"=?'
    guard = "" if write.only_if is None else f" AND {condition(write.only_if, words)}"
    return f'UPDATE "{table}" {" ".join(changed)} WHERE {keys}{guard}', words.parameters
