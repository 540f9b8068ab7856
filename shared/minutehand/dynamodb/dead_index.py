"""The index of dead runs in DynamoDB: lines in the ledger's table, in partitions of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from minutehand.aws import ConditionFailed
from minutehand.domain.dead_run import DeadRunRow, parse_dead_key, partitions
from minutehand.domain.run import RunState
from minutehand.domain.times import SECOND
from minutehand.dynamodb.rows import present, readable, reads, to_item
from minutehand.dynamodb.table_client import TableClient
from minutehand.state.conditions import Condition, Value

if TYPE_CHECKING:  # PynamoDB is loaded by the first call that needs it
    from minutehand.dynamodb.models import Models


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
