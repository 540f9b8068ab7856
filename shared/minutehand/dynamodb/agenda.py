"""The agenda in DynamoDB: entries by shard and due time, a lock per shard, one config item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minutehand.aws import ConditionFailed
from minutehand.domain.run import AgendaEntry
from minutehand.domain.times import stamp
from minutehand.dynamodb.rows import Item, entry_of, entry_row, shard_key, to_item, to_row
from minutehand.dynamodb.table_client import TableClient
from minutehand.errors import TooNew, Unreadable
from minutehand.ports.agenda import DuePage

CONFIG = {"shard": {"S": "config"}, "entry": {"S": "config"}}
LOCK = "lock"  # sorts after every entry, as the keys of all other items do
_QUARANTINED = "quarantined#"


class DynamoAgenda:
    """The agenda in DynamoDB. ``shards`` is the number that the settings ask for."""

    def __init__(self, table: TableClient, *, shards: int) -> None:
        self._table, self._wanted = table, shards
        self._known: int | None = None

    def shards(self, *, fresh: bool = False) -> int:
        if self._known is None or fresh:
            self._known = self._read_shards()
        return self._known

    def _read_shards(self) -> int:
        """The number in the config item; made from the settings on first use, raised if the settings ask for more."""
        config = self._table.call("get_item", Key=CONFIG, ConsistentRead=True).get("Item", {})
        present = int(config["shards"]["N"]) if config else 0
        if present >= self._wanted:
            return present
        raised = self._table.applies(
            "put_item",
            Item=CONFIG | {"shards": {"N": str(self._wanted)}},
            ConditionExpression="attribute_not_exists(#shards) OR #shards < :wanted",
            values={"wanted": self._wanted},
        )
        return self._wanted if raised else self._read_shards()

    def lock(self, shard: int, *, holder: str, now: int, until: int) -> bool:
        return self._table.applies(
            "update_item",
            Key=_key(shard, LOCK),
            UpdateExpression="SET #until = :until, #holder = :holder",
            ConditionExpression="attribute_not_exists(#until) OR #until < :now OR #holder = :holder",
            values={"now": now, "until": until, "holder": holder},
        )

    def unlock(self, shard: int, *, holder: str) -> None:
        self._table.applies(
            "delete_item",
            Key=_key(shard, LOCK),
            ConditionExpression="#holder = :holder",
            values={"holder": holder},
        )

    def due(self, shard: int, *, upto: int, after: str | None, limit: int) -> DuePage:
        answer = self._table.call(
            "query",
            ConsistentRead=True,
            Limit=limit,
            KeyConditionExpression="#shard = :shard AND #entry < :last",
            ProjectionExpression="#entry, #after, #failures, #created_at, #queue, #v",  # the shard is known
            values={"shard": shard_key(shard), "last": stamp(upto + 1)},
            **({} if after is None else {"ExclusiveStartKey": _key(shard, after)}),
        )
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
        return self._table.write({entry.key: {"PutRequest": {"Item": to_item(entry_row(entry))}} for entry in entries})

    def remove(self, entries: Sequence[AgendaEntry]) -> frozenset[str]:
        return self._table.write({e.key: {"DeleteRequest": {"Key": _key(e.shard, e.key)}} for e in entries})

    def fail(self, entry: AgendaEntry) -> int:
        try:
            answer = self._table.call(
                "update_item",
                Key=_key(entry.shard, entry.key),
                UpdateExpression="ADD #failures :one",
                ConditionExpression="attribute_exists(#entry)",
                values={"one": 1},
                ReturnValues="UPDATED_NEW",
            )
        except ConditionFailed:
            return 0
        return int(answer["Attributes"]["failures"]["N"])

    def quarantine(self, entry: AgendaEntry, *, reason: str, now: int) -> None:
        key = _key(entry.shard, entry.key)
        stored = self._table.call("get_item", Key=key, ConsistentRead=True).get("Item", {})
        marks: dict[str, Any] = {"entry": f"{_QUARANTINED}{entry.key}", "reason": reason[:500], "quarantined_at": now}
        self._table.call("put_item", Item=stored | to_item(entry_row(entry) | marks))
        self._table.call("delete_item", Key=key)

    def quarantined(self, shard: int) -> Sequence[str]:
        values = {"shard": shard_key(shard), "quarantined": _QUARANTINED}
        rows = self._table.query("#shard = :shard AND begins_with(#entry, :quarantined)", values=values)
        return [row["entry"].removeprefix(_QUARANTINED) for row in rows]


def _key(shard: int, entry: str) -> Item:
    return to_item({"shard": shard_key(shard), "entry": entry})
