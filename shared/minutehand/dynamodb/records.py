"""Records and the index of dead runs in DynamoDB: rows of the table of runs, in partitions or behind keys of their own.

A record is a versioned JSON document that is sorted after all runs of its owner.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from minutehand.aws import ConditionFailed
from minutehand.domain.run import DeadRunRow, RunState, parse_dead_key, partitions
from minutehand.domain.times import SECOND
from minutehand.dynamodb.rows import present, readable, reads, to_item, to_row
from minutehand.dynamodb.table_client import TableClient
from minutehand.ports.records import Record
from minutehand.state.transition import Condition, Value

if TYPE_CHECKING:  # PynamoDB is loaded by the first call that needs it
    from pynamodb.expressions import condition as pynamodb

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


def follows(models: Models, record: Record) -> pynamodb.Condition:
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


class DynamoDeadIndex:
    """Dead runs in DynamoDB. ``models`` makes the models when they are first needed."""

    def __init__(self, table: TableClient, *, models: Callable[[], Models]) -> None:
        self._table, self._models = table, models

    def put(self, dead: DeadRunRow, *, expires: int) -> bool:
        model = self._models().dead
        try:
            model.of(dead_row(dead, expires // SECOND)).save(model.owner.does_not_exist())
        except ConditionFailed:
            return False
        return True

    def read(
        self, tenant: str, *, after: int, upto: int, only: Condition | None, before: str | None, page: int | None
    ) -> Iterator[DeadRunRow]:
        models = self._models()
        for owner, first, last in partitions(tenant, after=after, upto=upto, before=before):
            found = models.dead.query(
                owner,
                models.dead.key.between(first, last),
                None if only is None else models.dead.condition(only),
                consistent_read=True,
                scan_index_forward=False,
                page_size=page,
            )
            rows = (item.attribute_values for item in found)
            yield from readable_dead(row for row in rows if row["key"] != before)

    def mark(self, dead: DeadRunRow, *, redriven_as: str) -> bool:
        models = self._models()
        try:
            models.update(models.dead(dead.owner, dead.key, redriven_as=redriven_as), models.dead.owner.exists())
        except ConditionFailed:
            return False
        return True

    def remove(self, dead: Sequence[DeadRunRow]) -> frozenset[str]:
        keys = (to_item({"owner": line.owner, "key": line.key}) for line in dead)
        return self._table.write({key["key"]["S"]: {"DeleteRequest": {"Key": key}} for key in keys})


def dead_row(dead: DeadRunRow, expires: int) -> dict[str, Value]:
    """A line as it is first written; ``expires`` in epoch seconds. Run and time of death are in its key."""
    row = {
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
    return present(row)


@reads("line {key} of the index of dead runs")
def dead_of(row: Mapping[str, Any]) -> DeadRunRow:
    """A line from its row. Raises Unreadable, TooNew."""
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


def readable_dead(rows: Iterable[Mapping[str, Any]]) -> Iterator[DeadRunRow]:
    """The lines of rows."""
    return readable(rows, dead_of, "dead.unreadable")
