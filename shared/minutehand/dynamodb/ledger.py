"""The ledger in DynamoDB: claims and transitions of runs."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from minutehand.aws import BatchBackoff, Client, ConditionFailed, TransactionRefused
from minutehand.concurrency.request_pool import RequestPool
from minutehand.domain.names import RunRef
from minutehand.domain.run import WAITING, FailedAttemptRow, RunRow, RunState, SiblingRows
from minutehand.domain.times import DAY, SECOND, stamp
from minutehand.dynamodb import batches
from minutehand.dynamodb.cursors import decode_cursor, encode_cursor
from minutehand.dynamodb.expressions import (
    Placeholders,
    condition,
    insert_statement,
    update_arguments,
    update_statement,
)
from minutehand.dynamodb.rows import (
    Item,
    attempt_row,
    beside_key,
    beside_of,
    beside_prefix,
    claim_row,
    readable_runs,
    run_of,
    run_row,
    to_item,
    to_row,
)
from minutehand.errors import Unavailable, Unreadable
from minutehand.ports.ledger import BatchReadResult, BesideKind, ClaimResult, TransitionResult
from minutehand.ports.page import RowPage
from minutehand.state.conditions import Value, holds
from minutehand.state.transitions.transition import Transition, held

log = logging.getLogger(__name__)

INLINE_PAYLOAD = (
    400  # bytes of a one-off's payload in its own row; more lies in a sibling row, as updates bill the whole row
)
_FIRST, _LAST = stamp(0), stamp(10**15 - 1)
_ASIDE = "\x7f"  # after all rows of an instant: those aside of its fire as well
_SUCCESSES = 100  # rows among which a success is looked for in one query
_RETRY_SPAN = 14 * DAY  # how long after a failed attempt its run may still be retried
_MISSING = "attribute_not_exists(#owner)"


class DynamoLedger:
    """Runs in DynamoDB. ``claim_by`` is "partiql", or "put" for engines without PartiQL. Claims go over ``pool``."""

    def __init__(
        self,
        client: Client,
        table: str,
        *,
        backoff: BatchBackoff,
        retention: int,
        claim_by: str = "partiql",
        pool: RequestPool | None = None,
    ) -> None:
        self._client, self._table, self._backoff = client, table, backoff
        self._pool = pool or RequestPool()
        self._retention, self._batched = retention, claim_by == "partiql"

    # Claims.

    def claim(self, runs: Sequence[RunRow]) -> ClaimResult:
        rows = [claim_row(run, self._retention) for run in runs]
        answers = self._claim_in_batches(rows) if self._batched else self._claim_one_by_one(rows)
        created = frozenset(runs[index].ref for index, answer in answers.items() if not answer.refused)
        duplicates = {runs[index].ref: answer.item for index, answer in answers.items() if answer.refused}
        return _claimed(created, self._rows_of(duplicates))

    def _claim_in_batches(self, rows: Sequence[Mapping[str, Any]]) -> dict[int, batches.Answered]:
        statements = [insert_statement(self._table, row) for row in rows]
        return batches.execute(self._client, self._backoff, statements, self._pool)

    def _claim_one_by_one(self, rows: Sequence[Mapping[str, Any]]) -> dict[int, batches.Answered]:
        answers = self._pool.map(self._claim_one, rows)
        return {index: answer for index, answer in enumerate(answers) if answer is not None}

    def _claim_one(self, row: Mapping[str, Any]) -> tuple[batches.Answered | None, int]:
        try:
            self._put(to_item(row))
        except ConditionFailed as refused:
            return batches.Answered(refused=True, item=refused.item or {}), 0
        except Unavailable:
            return None, 1  # it was asked for again already; the entry stays for the next tick
        return batches.Answered(), 0

    def _put(self, item: Item) -> None:
        self._client.call(
            "put_item",
            TableName=self._table,
            Item=item,
            ConditionExpression=_MISSING,
            ExpressionAttributeNames={"#owner": "owner"},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )

    def _rows_of(self, duplicates: Mapping[RunRef, Item]) -> dict[RunRef, Item]:
        """The rows that are there; those that did not come with the refusal are read, strongly."""
        present = {ref: item for ref, item in duplicates.items() if item}
        unknown = [_key(ref) for ref in duplicates if ref not in present]
        if unknown:
            items, _ = batches.get(self._client, self._backoff, self._table, unknown)
            present |= {_ref(item): item for item in items}
        return present

    def submit(self, run: RunRow) -> RunRow | None:
        row = run_row(run)
        payload = row.get("payload", "")
        try:
            if len(str(payload).encode()) <= INLINE_PAYLOAD:
                self._put(to_item(row))
            else:
                self._put_with_payload(run.ref, row)
        except (ConditionFailed, TransactionRefused):
            existing = self.read(run.ref)
            if existing is None:
                raise Unavailable(f"run {run.ref} is being written by somebody else; try again") from None
            return existing
        return None

    def _put_with_payload(self, ref: RunRef, row: dict[str, Any]) -> None:
        """Both rows or none: a payload without its run could be taken for another's."""
        payload = row.pop("payload")
        sibling = {"owner": ref.owner, "key": f"#{ref.key}#payload", "payload": payload}
        put = {"TableName": self._table, "Item": to_item(row | {"payload_beside": True})}
        condition = {"ConditionExpression": _MISSING, "ExpressionAttributeNames": {"#owner": "owner"}}
        items = [{"Put": put | condition}, {"Put": {"TableName": self._table, "Item": to_item(sibling)}}]
        self._client.call("transact_write_items", TransactItems=items)

    # Transitions.

    def move(self, ref: RunRef, transition: Transition) -> TransitionResult:
        try:
            answer = self._client.call("update_item", **update_arguments(self._table, ref, transition))
        except ConditionFailed as refused:
            row = to_row(refused.item) if refused.item else None
            if row is None or "state" not in row:
                return TransitionResult(applied=False, run=None)
            return TransitionResult(applied=holds(transition.already, row), run=run_of(row))
        row = to_row(answer["Attributes"])
        if "payload_beside" in row and "ttl" in transition.changes:
            self._expire_payload(ref, int(row["ttl"]))
        return TransitionResult(applied=True, run=run_of(row))

    def _expire_payload(self, ref: RunRef, expires: int) -> None:
        """A one-off's payload row leaves the ledger with its run."""
        self._client.call(
            "update_item",
            TableName=self._table,
            Key=_key(RunRef(ref.owner, f"#{ref.key}#payload")),
            UpdateExpression="SET #ttl = :ttl",
            ExpressionAttributeNames={"#ttl": "ttl"},
            ExpressionAttributeValues={":ttl": {"N": str(expires)}},
        )

    def move_all(self, moves: Sequence[tuple[RunRef, Transition]]) -> Mapping[RunRef, bool]:
        return self._move_in_batches(moves) if self._batched else self._move_one_by_one(moves)

    def _move_in_batches(self, moves: Sequence[tuple[RunRef, Transition]]) -> dict[RunRef, bool]:
        statements = [update_statement(self._table, ref, transition) for ref, transition in moves]
        answers = batches.execute(self._client, self._backoff, statements)
        result = {}
        for index, answer in answers.items():
            ref, transition = moves[index]
            mine = bool(answer.item) and holds(transition.already, to_row(answer.item))
            result[ref] = mine or not answer.refused
        return result

    def lease_all(
        self, leases: Sequence[tuple[RunRef, Transition]], *, known: Collection[RunRef] = ()
    ) -> Mapping[RunRef, TransitionResult]:
        if not self._batched:
            return self._lease_one_by_one(leases)
        statements = [update_statement(self._table, ref, lease, returning=ref not in known) for ref, lease in leases]
        answers = batches.execute(self._client, self._backoff, statements)
        result = {}
        for index, answer in answers.items():
            ref, lease = leases[index]
            try:
                taken = ref in known and not answer.refused
                result[ref] = TransitionResult(applied=True, run=None) if taken else self._leased(ref, lease, answer)
            except Unreadable as problem:  # its own: the leases of the others are taken, and must be known
                log.error("run.unreadable", extra={"run_id": str(ref), "error": str(problem)})
        return result

    def _leased(self, ref: RunRef, lease: Transition, answer: batches.Answered) -> TransitionResult:
        row = to_row(answer.item)
        if answer.refused and "state" not in row:
            return TransitionResult(applied=False, run=None)
        if not row:  # an engine that does not return what it was asked for
            return TransitionResult(applied=True, run=self.read(ref))
        return TransitionResult(applied=not answer.refused or holds(lease.already, row), run=run_of(row))

    def _lease_one_by_one(self, leases: Sequence[tuple[RunRef, Transition]]) -> dict[RunRef, TransitionResult]:
        result = {}
        for ref, lease in leases:
            try:
                result[ref] = self.move(ref, lease)
            except (Unavailable, Unreadable):
                continue
        return result

    def _move_one_by_one(self, moves: Sequence[tuple[RunRef, Transition]]) -> dict[RunRef, bool]:
        result = {}
        for ref, transition in moves:
            try:
                result[ref] = self.move(ref, transition).applied
            except (Unavailable, Unreadable):
                continue
        return result

    # Reads.

    def read(self, ref: RunRef) -> RunRow | None:
        row = self._get(ref)
        if row is None:
            return None
        if "payload_beside" in row:
            beside = self._get(RunRef(ref.owner, f"#{ref.key}#payload"))
            row |= {"payload": beside["payload"]} if beside else {}
        return run_of(row)

    def _get(self, ref: RunRef) -> dict[str, Any] | None:
        answer = self._client.call("get_item", TableName=self._table, Key=_key(ref), ConsistentRead=True)
        return to_row(answer["Item"]) if "Item" in answer else None

    def look(self, refs: Sequence[RunRef]) -> BatchReadResult:
        items, unread = batches.get(
            self._client, self._backoff, self._table, [_key(ref) for ref in dict.fromkeys(refs)], self._pool
        )
        rows = {_ref(item): to_row(item) for item in items}
        found = {run.ref: run for run in readable_runs(rows.values())}
        return BatchReadResult(
            found=found, unanswered=frozenset(rows.keys() - found.keys()) | {_ref(key) for key in unread}
        )

    def never_leased(self, owner: str, *, after: int | None, upto: int | None = None) -> Iterator[RunRow]:
        return self._query(owner, after=after, upto=upto, only=RunState.QUEUED)

    def window(self, owner: str, *, after: int, upto: int) -> Iterator[RunRow]:
        return self._query(owner, after=after, upto=upto)

    def unfinished(self, *, segment: int, segments: int) -> Iterator[RunRow]:
        states = sorted(WAITING | {RunState.RUNNING})
        request: dict[str, Any] = {
            "TableName": self._table,
            "Segment": segment,
            "TotalSegments": segments,
            "FilterExpression": f"#state IN ({', '.join(f':{i}' for i in range(len(states)))})",
            "ExpressionAttributeNames": {"#state": "state"},
            "ExpressionAttributeValues": {f":{i}": {"S": str(state)} for i, state in enumerate(states)},
        }
        while True:
            answer = self._client.call("scan", **request)
            yield from readable_runs(to_row(item) for item in answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def latest(self, owner: str, *, upto: int) -> Iterator[RunRow]:
        return self._query(owner, after=None, upto=upto, newest_first=True, page=5)

    def succeeded(self, owner: str, *, after: int, upto: int) -> Iterator[RunRow]:
        return self._query(owner, after=after, upto=upto, only=RunState.SUCCEEDED, newest_first=True, page=_SUCCESSES)

    def page(
        self, owner: str, *, after: int | None, upto: int | None, limit: int, cursor: str | None, newest_first: bool
    ) -> RowPage:
        start = None if cursor is None else decode_cursor(cursor, owner)
        rows = self._rows(owner, after, upto, newest_first=newest_first, start=start)
        taken = list(islice(rows, limit + 1))
        more = encode_cursor(taken[limit - 1]) if len(taken) > limit else None
        return RowPage(items=list(readable_runs(taken[:limit])), cursor=more)

    def _query(
        self,
        owner: str,
        *,
        after: int | None,
        upto: int | None = None,
        only: RunState | None = None,
        newest_first: bool = False,
        page: int | None = None,
    ) -> Iterator[RunRow]:
        return readable_runs(self._rows(owner, after, upto, only=only, newest_first=newest_first, page=page))

    def _rows(
        self,
        owner: str,
        after: int | None,
        upto: int | None,
        *,
        only: RunState | None = None,
        newest_first: bool = False,
        start: str | None = None,
        page: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Rows of an owner with fires in ``(after, upto]``, page by page as they are asked for."""
        first = _FIRST if after is None else stamp(after) + _ASIDE
        last = (_LAST if upto is None else stamp(upto)) + _ASIDE
        if first > last:
            return
        request: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "ScanIndexForward": not newest_first,
            "KeyConditionExpression": "#owner = :owner AND #key BETWEEN :first AND :last",
            "ExpressionAttributeNames": {"#owner": "owner", "#key": "key"},
            "ExpressionAttributeValues": {":owner": {"S": owner}, ":first": {"S": first}, ":last": {"S": last}},
        }
        if only is not None:
            request["FilterExpression"] = "#state = :state"
            request["ExpressionAttributeNames"]["#state"] = "state"
            request["ExpressionAttributeValues"][":state"] = {"S": str(only)}
        if page is not None:
            request["Limit"] = page
        if start is not None:
            request["ExclusiveStartKey"] = _key(RunRef(owner, start))
        while True:
            answer = self._client.call("query", **request)
            yield from (to_row(item) for item in answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    # Attempts.

    def record(self, attempt: FailedAttemptRow) -> None:
        expires = (attempt.ended_at + self._retention + _RETRY_SPAN) // SECOND
        self._client.call("put_item", TableName=self._table, Item=to_item(attempt_row(attempt, expires)))

    def attempts(self, ref: RunRef) -> Sequence[FailedAttemptRow]:
        return self.beside(ref).attempts

    # What lies beside a run.

    def keep(self, ref: RunRef, *, fence: int, kind: BesideKind, name: str, text: str, expires: int) -> bool:
        place = beside_key(ref, kind, name)
        use = Placeholders()
        check = {
            "TableName": self._table,
            "Key": _key(ref),
            "ConditionExpression": condition(held(fence), use),
            "ExpressionAttributeNames": use.names,
            "ExpressionAttributeValues": use.values,
        }
        row: dict[str, Value] = {
            "owner": place.owner,
            "key": place.key,
            "text": text,
            "ttl": (expires + _RETRY_SPAN) // SECOND,
        }
        put: dict[str, Any] = {"TableName": self._table, "Item": to_item(row)}
        if kind is BesideKind.STEP:
            put |= {"ConditionExpression": _MISSING, "ExpressionAttributeNames": {"#owner": "owner"}}
        for _ in self._backoff.rounds_with_waits():
            try:
                self._client.call("transact_write_items", TransactItems=[{"ConditionCheck": check}, {"Put": put}])
                return True
            except TransactionRefused as refused:
                if refused.by_condition:
                    return False  # otherwise it met a heartbeat on the same row: again
        raise Unavailable(f"the {kind} {name!r} of run {ref} met other writes on its row again and again")

    def beside(self, ref: RunRef) -> SiblingRows:
        request: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "KeyConditionExpression": "#owner = :owner AND begins_with(#key, :prefix)",
            "ExpressionAttributeNames": {"#owner": "owner", "#key": "key"},
            "ExpressionAttributeValues": {":owner": {"S": ref.owner}, ":prefix": {"S": beside_prefix(ref)}},
        }
        rows: list[dict[str, Any]] = []
        while True:
            answer = self._client.call("query", **request)
            rows += [to_row(item) for item in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                return beside_of(ref, rows)
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def _claimed(created: frozenset[RunRef], present: Mapping[RunRef, Item]) -> ClaimResult:
    """The answer to claims; one row that cannot be read spoils no other's answer."""
    existing: dict[RunRef, RunRow] = {}
    unreadable = set()
    for ref, item in present.items():
        try:
            existing[ref] = run_of(to_row(item))
        except Unreadable:
            unreadable.add(ref)
    return ClaimResult(created=created, existing=existing, unreadable=frozenset(unreadable))


def _key(ref: RunRef) -> Item:
    return {"owner": {"S": ref.owner}, "key": {"S": ref.key}}


def _ref(item: Item) -> RunRef:
    return RunRef(item["owner"]["S"], item["key"]["S"])
