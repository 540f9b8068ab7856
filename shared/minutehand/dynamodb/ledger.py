"""The ledger in DynamoDB: the requests for claims, transitions and reads of runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from minutehand.aws import ConditionFailed, TransactionRefused
from minutehand.concurrency.pools import RequestPool
from minutehand.domain.names import RunRef
from minutehand.domain.run import WAITING, RunRow, RunState
from minutehand.dynamodb.expressions import (
    ExpressionWords,
    condition,
    insert_statement,
    update_arguments,
    update_statement,
)
from minutehand.dynamodb.row_ledger import Moves, Row, RowLedger
from minutehand.dynamodb.rows import (
    Item,
    readable_runs,
    to_item,
    to_row,
)
from minutehand.dynamodb.table_client import TableClient
from minutehand.errors import Unavailable
from minutehand.ports.ledger import BesideKind
from minutehand.state.transition import Condition, OneOf, Transition, Value

_MISSING = "attribute_not_exists(#owner)"

_T = TypeVar("_T")
_R = TypeVar("_R")


class DynamoLedger(RowLedger):
    """Runs in DynamoDB. ``claim_by`` is "partiql", or "put" for engines without PartiQL. ``retention`` in ms."""

    def __init__(self, table: TableClient, *, retention: int, claim_by: str = "partiql") -> None:
        super().__init__(retention)
        self._table, self._batched = table, claim_by == "partiql"

    def _one_by_one(self, do: Callable[[_T], _R], items: Sequence[_T], pool: RequestPool) -> dict[int, _R]:
        """A request for each item, for engines without PartiQL: index → result. An item without a response is absent."""

        def attempt(item: _T) -> tuple[tuple[_R, ...], int]:
            try:
                return (do(item),), 0
            except Unavailable:
                return (), 1

        return {index: result for index, got in enumerate(pool.map(attempt, items)) for result in got}

    # Claims.

    def _insert_all(self, rows: Sequence[Row]) -> Mapping[int, Row | None]:
        if self._batched:
            statements = [insert_statement(self._table.name, row) for row in rows]
            results = self._table.execute(statements, pooled=True)
            answers = {index: result.row if result.refused else None for index, result in results.items()}
        else:
            answers = self._one_by_one(self._insert_one, rows, self._table.pool)
        unknown = {index: _ref(rows[index]) for index, row in answers.items() if row == {}}
        if unknown:  # the refusal came without the stored row
            stored, _ = self._get_all(list(unknown.values()))
            read: dict[int, Row | None] = {index: stored[ref] for index, ref in unknown.items() if ref in stored}
            answers = {index: row for index, row in answers.items() if row != {}} | read
        return answers

    def _insert_one(self, row: Row) -> Row | None:
        try:
            self._put_new(row)
        except ConditionFailed as refused:
            return to_row(refused.item or {})
        return None

    def _put_new(self, row: Row) -> None:
        on_failure = {"ConditionExpression": _MISSING, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        self._table.call("put_item", Item=to_item(row), **on_failure)

    def _insert(self, row: Row, sibling: Row | None) -> bool:
        try:
            if sibling is None:
                self._put_new(row)
            else:
                put = self._table.arguments(Item=to_item(row), ConditionExpression=_MISSING)
                self._table.transact({"Put": put}, {"Put": self._table.arguments(Item=to_item(sibling))})
        except (ConditionFailed, TransactionRefused):
            return False
        return True

    # Transitions.

    def _update(self, ref: RunRef, transition: Transition) -> tuple[bool, Row | None]:
        try:
            answer = self._table.call("update_item", Key=_key(ref), **update_arguments(transition))
        except ConditionFailed as refused:
            return False, to_row(refused.item) if refused.item else None
        return True, to_row(answer["Attributes"])

    def _update_all(self, moves: Moves, *, returning: Collection[RunRef] = ()) -> Mapping[int, tuple[bool, Row | None]]:
        if not self._batched:
            return self._one_by_one(lambda move: self._apply(*move), moves, RequestPool())
        name = self._table.name
        statements = [update_statement(name, ref, move, returning=ref in returning) for ref, move in moves]
        return {i: (not result.refused, result.row) for i, result in self._table.execute(statements).items()}

    def _expire(self, ref: RunRef, expires: int) -> None:
        self._table.call("update_item", Key=_key(ref), UpdateExpression="SET #ttl = :ttl", values={"ttl": expires})

    # Reads.

    def _get(self, ref: RunRef, verb: str) -> Row | None:
        del verb
        return self._table.get(owner=ref.owner, key=ref.key)

    def _get_all(self, refs: Sequence[RunRef]) -> tuple[Mapping[RunRef, Row], frozenset[RunRef]]:
        items, unread = self._table.read(map(_key, refs))
        rows = map(to_row, items)
        return {_ref(row): row for row in rows}, frozenset(_ref(to_row(key)) for key in unread)

    def unfinished(self, *, segment: int, segments: int) -> Iterator[RunRow]:
        words = ExpressionWords()
        only = condition(OneOf("state", tuple(sorted(WAITING | {RunState.RUNNING}))), words)
        scan = self._table.pages(
            "scan", Segment=segment, TotalSegments=segments, FilterExpression=only, values=words.values
        )
        return readable_runs(scan)

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
        del verb
        values: dict[str, Value] = {"owner": owner, "first": first, "last": last}
        more: dict[str, Any] = {"ScanIndexForward": not newest_first}
        if only is not None:
            more["FilterExpression"] = "#state = :state"
            values["state"] = only
        if page is not None:
            more["Limit"] = page
        if start is not None:
            more["ExclusiveStartKey"] = _key(RunRef(owner, start))
        return self._table.query("#owner = :owner AND #key BETWEEN :first AND :last", values=values, **more)

    # Siblings of a run.

    def _put(self, row: Row) -> None:
        self._table.call("put_item", Item=to_item(row))

    def _put_beside(self, ref: RunRef, kind: BesideKind, guard: Condition, row: Row) -> bool:
        words = ExpressionWords()
        clause = condition(guard, words)
        check = self._table.arguments(Key=_key(ref), ConditionExpression=clause, values=words.values)
        once: dict[str, Any] = {"ConditionExpression": _MISSING} if kind is BesideKind.STEP else {}
        put = self._table.arguments(Item=to_item(row), **once)
        for _ in self._table.backoff.rounds_with_waits():
            try:
                self._table.transact({"ConditionCheck": check}, {"Put": put})
                return True
            except TransactionRefused as refused:
                if refused.by_condition:
                    return False  # any other refusal is a conflict with a heartbeat on the run's row: repeat
        raise Unavailable(f"{row['key']!r} of run {ref} met other writes on the run's row again and again; try again")

    def _siblings(self, owner: str, prefix: str) -> Iterator[Row]:
        values = {"owner": owner, "prefix": prefix}
        return self._table.query("#owner = :owner AND begins_with(#key, :prefix)", values=values)


def _key(ref: RunRef) -> Item:
    return {"owner": {"S": ref.owner}, "key": {"S": ref.key}}


def _ref(row: Mapping[str, Any]) -> RunRef:
    return RunRef(row["owner"], row["key"])
