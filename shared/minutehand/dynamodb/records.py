"""Records in DynamoDB: versioned JSON documents in the table of runs, sorted after all runs of their owner."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from minutehand.aws import ConditionFailed
from minutehand.domain.times import SECOND
from minutehand.dynamodb.rows import readable, reads, to_row
from minutehand.dynamodb.table_client import TableClient
from minutehand.ports.records import Record

if TYPE_CHECKING:  # PynamoDB is loaded by the first call that needs it
    from pynamodb.expressions.condition import Condition

    from minutehand.dynamodb.models import Models


class DynamoRecords:
    """Records in one table. ``models`` makes the models when they are first needed."""

    def __init__(self, table: TableClient, *, models: Callable[[], Models]) -> None:
        self._table, self._models = table, models

    def read(self, owner: str, key: str) -> Record | None:
        # Not by a model: every tick reads the record of held queues, and every start of an exclusive run its slot.
        row = self._table.get(owner=owner, key=key)
        return None if row is None else record_of(row)

    def write(self, record: Record) -> bool:
        models, row = self._models(), record_row(record)
        try:
            models.update(models.records.of(row), follows(models, record))
        except ConditionFailed as refused:
            return refused.item is not None and contains(to_row(refused.item), row)
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
    """The condition that the stored version is the one before the record's; before version 1 there is no row."""
    version = models.records.version
    return version == record.version - 1 if record.version > 1 else version.does_not_exist()


def record_row(record: Record) -> dict[str, Any]:
    """A record as a row. Equal bodies give equal texts. None is not stored."""
    return {
        "owner": record.owner,
        "key": record.key,
        "version": record.version,
        "body": json.dumps(record.body, sort_keys=True, separators=(",", ":")),
        "ttl": None if record.expires is None else record.expires // SECOND,
    }


def contains(stored: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether a stored row has every attribute of ``row``; a later release may have added others."""
    return all(stored.get(name) == value for name, value in row.items())


@reads("record {owner}#{key}")
def record_of(row: Mapping[str, Any]) -> Record:
    """The reverse of ``record_row``. The expiry is rounded down to seconds. Raises Unreadable, TooNew."""
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
