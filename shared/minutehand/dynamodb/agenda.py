"""The agenda in DynamoDB: entries by shard and due time, a lock per shard, one config item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minutehand.aws import BatchBackoff, Client, ConditionFailed
from minutehand.concurrency.request_pool import RequestPool
from minutehand.domain.agenda_entry import AgendaEntry
from minutehand.domain.times import stamp
from minutehand.dynamodb import batches
from minutehand.dynamodb.rows import entry_of, entry_row, shard_key, to_item, to_row
from minutehand.errors import TooNew, Unreadable
from minutehand.ports.agenda import DuePage

CONFIG = {"shard": {"S": "config"}, "entry": {"S": "config"}}
LOCK = "lock"  # sorts after every entry, as all that is no entry does
_ASIDE = "quarantined#"


class DynamoAgenda:
    """The agenda in DynamoDB."""

    def __init__(
        self, client: Client, table: str, *, backoff: BatchBackoff, shards: int, pool: RequestPool | None = None
    ) -> None:
        self._client, self._table, self._backoff, self._wanted = client, table, backoff, shards
        self._pool = pool or RequestPool()
        self._known: int | None = None

    def shards(self, *, fresh: bool = False) -> int:
        if self._known is None or fresh:
            self._known = self._read_shards()
        return self._known

    def _read_shards(self) -> int:
        """The config item; made from the settings on first use, raised where the settings say more."""
        answer = self._client.call("get_item", TableName=self._table, Key=CONFIG, ConsistentRead=True)
        present = int(answer["Item"]["shards"]["N"]) if "Item" in answer else 0
        if present >= self._wanted:
            return present
        try:
            self._client.call(
                "put_item",
                TableName=self._table,
                Item=CONFIG | {"shards": {"N": str(self._wanted)}},
                ConditionExpression="attribute_not_exists(#shards) OR #shards < :wanted",
                ExpressionAttributeNames={"#shards": "shards"},
                ExpressionAttributeValues={":wanted": {"N": str(self._wanted)}},
            )
        except ConditionFailed:
            return self._read_shards()
        return self._wanted

    def lock(self, shard: int, *, holder: str, now: int, until: int) -> bool:
        free, ours = "attribute_not_exists(#until) OR #until < :now", "#holder = :holder"
        try:
            self._client.call(
                "update_item",
                TableName=self._table,
                Key=_key(shard, LOCK),
                UpdateExpression="SET #until = :until, #holder = :holder",
                ConditionExpression=f"{free} OR {ours}",
                ExpressionAttributeNames={"#until": "until", "#holder": "holder"},
                ExpressionAttributeValues={
                    ":now": {"N": str(now)},
                    ":until": {"N": str(until)},
                    ":holder": {"S": holder},
                },
            )
        except ConditionFailed:
            return False
        return True

    def unlock(self, shard: int, *, holder: str) -> None:
        try:
            self._client.call(
                "delete_item",
                TableName=self._table,
                Key=_key(shard, LOCK),
                ConditionExpression="#holder = :holder",
                ExpressionAttributeNames={"#holder": "holder"},
                ExpressionAttributeValues={":holder": {"S": holder}},
            )
        except ConditionFailed:
            return

    def due(self, shard: int, *, upto: int, after: str | None, limit: int) -> DuePage:
        request: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "Limit": limit,
            "KeyConditionExpression": "#shard = :shard AND #entry < :last",
            "ProjectionExpression": "#entry, #after, #failures, #created, #queue, #v",  # the shard is known
            "ExpressionAttributeNames": {
                "#shard": "shard",
                "#entry": "entry",
                "#after": "after",
                "#failures": "failures",
                "#created": "created_at",
                "#queue": "queue",
                "#v": "v",
            },
            "ExpressionAttributeValues": {":shard": {"S": shard_key(shard)}, ":last": {"S": stamp(upto + 1)}},
        }
        if after is not None:
            request["ExclusiveStartKey"] = _key(shard, after)
        answer = self._client.call("query", **request)
        entries, broken, newer = [], [], []
        for item in answer["Items"]:
            try:
                entries.append(entry_of(to_row(item), shard))
            except TooNew:
                newer.append(item["entry"]["S"])
            except Unreadable:
                broken.append(item["entry"]["S"])
        last = answer.get("LastEvaluatedKey")
        return DuePage(entries=entries, broken=broken, newer=newer, last=last["entry"]["S"] if last else None)

    def put(self, entries: Sequence[AgendaEntry]) -> frozenset[str]:
        requests = {entry.key: {"PutRequest": {"Item": to_item(entry_row(entry))}} for entry in entries}
        return batches.write(self._client, self._backoff, self._table, requests, self._pool)

    def remove(self, entries: Sequence[AgendaEntry]) -> frozenset[str]:
        requests = {entry.key: {"DeleteRequest": {"Key": _key(entry.shard, entry.key)}} for entry in entries}
        return batches.write(self._client, self._backoff, self._table, requests, self._pool)

    def fail(self, entry: AgendaEntry) -> int:
        try:
            answer = self._client.call(
                "update_item",
                TableName=self._table,
                Key=_key(entry.shard, entry.key),
                UpdateExpression="ADD #failures :one",
                ConditionExpression="attribute_exists(#entry)",
                ExpressionAttributeNames={"#failures": "failures", "#entry": "entry"},
                ExpressionAttributeValues={":one": {"N": "1"}},
                ReturnValues="UPDATED_NEW",
            )
        except ConditionFailed:
            return 0
        return int(answer["Attributes"]["failures"]["N"])

    def quarantine(self, entry: AgendaEntry, *, reason: str, now: int) -> None:
        key = _key(entry.shard, entry.key)
        there = self._client.call("get_item", TableName=self._table, Key=key, ConsistentRead=True).get("Item", {})
        row = entry_row(entry) | {"entry": f"{_ASIDE}{entry.key}", "reason": reason[:500], "quarantined_at": now}
        self._client.call("put_item", TableName=self._table, Item=there | to_item(row))
        self._client.call("delete_item", TableName=self._table, Key=_key(entry.shard, entry.key))

    def quarantined(self, shard: int) -> Sequence[str]:
        request: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "KeyConditionExpression": "#shard = :shard AND begins_with(#entry, :aside)",
            "ExpressionAttributeNames": {"#shard": "shard", "#entry": "entry"},
            "ExpressionAttributeValues": {":shard": {"S": shard_key(shard)}, ":aside": {"S": _ASIDE}},
        }
        keys: list[str] = []
        while True:
            answer = self._client.call("query", **request)
            keys += [item["entry"]["S"].removeprefix(_ASIDE) for item in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                return keys
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def _key(shard: int, entry: str) -> dict[str, dict[str, str]]:
    return {"shard": {"S": shard_key(shard)}, "entry": {"S": entry}}
