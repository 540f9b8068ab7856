"""The index of dead runs in DynamoDB: lines in the ledger's table, in partitions of their own."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from minutehand.aws import Backoff, Client, ConditionFailed
from minutehand.domain.dead_run import DeadRunRow, parse_dead_key, partitions
from minutehand.domain.formats.schema import reading
from minutehand.domain.run import RunState
from minutehand.domain.times import SECOND
from minutehand.dynamodb import batches
from minutehand.dynamodb.expressions import Placeholders, condition
from minutehand.dynamodb.rows import Item, readable, to_item, to_row
from minutehand.state.conditions import Condition, Value

log = logging.getLogger(__name__)


class DynamoDeadIndex:
    """Dead runs in DynamoDB."""

    def __init__(self, client: Client, table: str, *, backoff: Backoff) -> None:
        self._client, self._table, self._backoff = client, table, backoff

    def put(self, dead: DeadRunRow, *, expires: int) -> bool:
        try:
            self._client.call(
                "put_item",
                TableName=self._table,
                Item=to_item(dead_row(dead, expires // SECOND)),
                ConditionExpression="attribute_not_exists(#owner)",
                ExpressionAttributeNames={"#owner": "owner"},
            )
        except ConditionFailed:
            return False
        return True

    def read(
        self, tenant: str, *, after: int, upto: int, only: Condition | None, before: str | None, page: int | None
    ) -> Iterator[DeadRunRow]:
        for owner, first, last in partitions(tenant, after=after, upto=upto, before=before):
            rows = (to_row(item) for item in self._query(owner, first, last, only, page))
            yield from readable_dead(row for row in rows if row["key"] != before)

    def _query(self, owner: str, first: str, last: str, only: Condition | None, page: int | None) -> Iterator[Item]:
        use = Placeholders(
            names={"#owner": "owner", "#key": "key"},
            values={":owner": {"S": owner}, ":first": {"S": first}, ":last": {"S": last}},
        )
        request: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "ScanIndexForward": False,
            "KeyConditionExpression": "#owner = :owner AND #key BETWEEN :first AND :last",
            "ExpressionAttributeNames": use.names,
            "ExpressionAttributeValues": use.values,
        }
        if only is not None:
            request["FilterExpression"] = condition(only, use)
        if page is not None:
            request["Limit"] = page
        while True:
            answer = self._client.call("query", **request)
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def mark(self, dead: DeadRunRow, *, redriven_as: str) -> bool:
        try:
            self._client.call(
                "update_item",
                TableName=self._table,
                Key=_key(dead),
                UpdateExpression="SET #redriven = :redriven",
                ConditionExpression="attribute_exists(#owner)",
                ExpressionAttributeNames={"#redriven": "redriven_as", "#owner": "owner"},
                ExpressionAttributeValues={":redriven": {"S": redriven_as}},
            )
        except ConditionFailed:
            return False
        return True

    def remove(self, dead: Sequence[DeadRunRow]) -> frozenset[str]:
        requests = {line.key: {"DeleteRequest": {"Key": _key(line)}} for line in dead}
        return batches.write(self._client, self._backoff, self._table, requests)


def _key(dead: DeadRunRow) -> Item:
    return {"owner": {"S": dead.owner}, "key": {"S": dead.key}}


def dead_row(dead: DeadRunRow, expires: int) -> dict[str, Value]:
    """A line as it is first written; ``expires`` in epoch seconds. Run and time of death are in its key."""
    row: dict[str, Value | None] = {
        "owner": dead.owner,
        "key": dead.key,
        "job": dead.job,
        "schedule": dead.schedule,
        "fence": dead.fence,
        "attempt": dead.attempts,
        "reason": dead.reason,
        "state": None if dead.state is RunState.DEAD else str(dead.state),
        "error_type": dead.error_type,
        "error": dead.error,
        "redriven_as": dead.redriven_as,
        "ttl": expires,
    }
    return {name: value for name, value in row.items() if value is not None}


def dead_of(row: Mapping[str, Any]) -> DeadRunRow:
    """A line from its row. Raises Unreadable, TooNew."""
    with reading(f"line {row.get('key')!r} of the index of dead runs", row):
        return _dead_of(row)


def readable_dead(rows: Iterable[Mapping[str, Any]]) -> Iterator[DeadRunRow]:
    """The lines of rows."""
    return readable(rows, dead_of, "dead.unreadable")


def _dead_of(row: Mapping[str, Any]) -> DeadRunRow:
    ended_at, run = parse_dead_key(row["key"])
    return DeadRunRow(
        run=run,
        job=row["job"],
        ended_at=ended_at,
        fence=row["fence"],
        attempts=row["attempt"],
        reason=row["reason"],
        state=RunState(row.get("state", RunState.DEAD)),
        error_type=row.get("error_type"),
        error=row.get("error"),
        redriven_as=row.get("redriven_as"),
    )
