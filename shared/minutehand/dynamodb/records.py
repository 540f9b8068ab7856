"""Records in DynamoDB: versioned JSON documents in the table of runs, beyond all runs of their owner."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from minutehand.aws import Client, ConditionFailed
from minutehand.domain.formats.schema import reading
from minutehand.domain.times import SECOND
from minutehand.dynamodb.rows import readable, to_item, to_row
from minutehand.ports.records import Record

if TYPE_CHECKING:  # PynamoDB is loaded by the first call that needs it
    from pynamodb.expressions.condition import Condition

    from minutehand.dynamodb.models import Models


class DynamoRecords:
    """Records in one table. ``models`` makes the models when they are first needed."""

    def __init__(self, client: Client, table: str, *, models: Callable[[], Models]) -> None:
        self._client, self._table, self._models = client, table, models

    def read(self, owner: str, key: str) -> Record | None:
        # Every tick reads the record of held queues, and every start of an exclusive run its slot: it goes over our own client.
        answer = self._client.call(
            "get_item", TableName=self._table, Key=to_item({"owner": owner, "key": key}), ConsistentRead=True
        )
        return record_of(to_row(answer["Item"])) if "Item" in answer else None

    def write(self, record: Record) -> bool:
        models, row = self._models(), record_row(record)
        try:
            models.update(models.records.of(row), follows(models, record))
        except ConditionFailed as refused:
            return refused.item is not None and says(to_row(refused.item), row)
        return True

    def remove(self, record: Record) -> bool:
        model = self._models().records
        try:
            model(record.owner, record.key).delete(model.version.does_not_exist() | (model.version == record.version))
        except ConditionFailed:
            return False
        return True

    def listed(self, owner: str, prefix: str) -> Iterator[Record]:
        model = self._models().records
        found = model.query(owner, model.key.startswith(prefix), consistent_read=True)
        return readable_records(item.attribute_values for item in found)


def follows(models: Models, record: Record) -> Condition:
    """The version that is there is the one before; before the first there is none."""
    version = models.records.version
    return version == record.version - 1 if record.version > 1 else version.does_not_exist()


def record_row(record: Record) -> dict[str, Any]:
    """A record as a row; its body as one text, the same text for the same body. None is not stored."""
    return {
        "owner": record.owner,
        "key": record.key,
        "version": record.version,
        "body": json.dumps(record.body, sort_keys=True, separators=(",", ":")),
        "ttl": None if record.expires is None else record.expires // SECOND,
    }


def says(there: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether a row that is there says what this one does; a later release may have put more into it."""
    return all(there.get(name) == value for name, value in row.items())


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
