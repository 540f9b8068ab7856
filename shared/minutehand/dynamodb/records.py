"""Records in DynamoDB: versioned JSON documents in the table of runs, beyond all runs of their owner."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from minutehand.aws import Client, ConditionFailed
from minutehand.domain.formats.schema import reading
from minutehand.domain.times import SECOND
from minutehand.dynamodb.rows import readable, to_item, to_row
from minutehand.ports.records import Record

log = logging.getLogger(__name__)

Item = Mapping[str, Mapping[str, Any]]


class DynamoRecords:
    """Records in one table."""

    def __init__(self, client: Client, table: str) -> None:
        self._client, self._table = client, table

    def read(self, owner: str, key: str) -> Record | None:
        answer = self._client.call(
            "get_item", TableName=self._table, Key=to_item({"owner": owner, "key": key}), ConsistentRead=True
        )
        return record_of(to_row(answer["Item"])) if "Item" in answer else None

    def write(self, record: Record) -> bool:
        row = record_row(record)
        fresh, present = "attribute_not_exists(#version)", "#version = :before"
        condition: dict[str, Any] = {
            "ConditionExpression": fresh if record.version == 1 else present,
            "ExpressionAttributeNames": {"#version": "version"},
        }
        if record.version > 1:
            condition["ExpressionAttributeValues"] = {":before": {"N": str(record.version - 1)}}
        try:
            self._client.call(
                "put_item",
                TableName=self._table,
                Item=to_item(row),
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **condition,
            )
        except ConditionFailed as refused:
            return bool(refused.item) and to_row(refused.item or {}) == row
        return True

    def remove(self, record: Record) -> bool:
        try:
            self._client.call(
                "delete_item",
                TableName=self._table,
                Key=to_item({"owner": record.owner, "key": record.key}),
                ConditionExpression="attribute_not_exists(#version) OR #version = :version",
                ExpressionAttributeNames={"#version": "version"},
                ExpressionAttributeValues={":version": {"N": str(record.version)}},
            )
        except ConditionFailed:
            return False
        return True

    def listed(self, owner: str, prefix: str) -> Iterator[Record]:
        request: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "KeyConditionExpression": "#owner = :owner AND begins_with(#key, :prefix)",
            "ExpressionAttributeNames": {"#owner": "owner", "#key": "key"},
            "ExpressionAttributeValues": {":owner": {"S": owner}, ":prefix": {"S": prefix}},
        }
        while True:
            answer = self._client.call("query", **request)
            yield from readable_records(to_row(item) for item in answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def record_row(record: Record) -> dict[str, Any]:
    """A record as a row; its body as one text, the same text for the same body."""
    row: dict[str, Any] = {"owner": record.owner, "key": record.key, "version": record.version}
    row["body"] = json.dumps(record.body, sort_keys=True, separators=(",", ":"))
    return row if record.expires is None else row | {"ttl": record.expires // SECOND}


def record_of(row: Mapping[str, Any]) -> Record:
    """The reverse of ``record_row``; of the expiry whole seconds are left. Raises Unreadable, TooNew."""
    with reading(f"record {row.get('owner')}#{row.get('key')}", row):
        return Record(
            owner=row["owner"],
            key=row["key"],
            version=int(row["version"]),
            body=dict(json.loads(row["body"])),
            expires=int(row["ttl"]) * SECOND if "ttl" in row else None,
        )


def readable_records(rows: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
    """The records of rows."""
    return readable(rows, record_of, "record.unreadable")
