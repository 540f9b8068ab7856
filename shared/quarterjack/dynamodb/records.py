"""Records and the index of dead runs: rows of the table of runs, in partitions or behind keys of their own.

A record is a versioned JSON document that is sorted after all runs of its owner.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from quarterjack.domain.audit import AuditLineRow
from quarterjack.domain.run import DeadRunRow, RunState, dead_day_over, parse_dead_key, partitions
from quarterjack.domain.times import SECOND
from quarterjack.dynamodb.audit import transact
from quarterjack.dynamodb.rows import present, readable, reads
from quarterjack.dynamodb.tables import RUNS, Row, RowQuery, RowTables, RowWrite, begins_with, put_new
from quarterjack.ports.records import OnRead, Record
from quarterjack.state.transition import Absent, Compare, Condition, any_of


class RowRecords:
    """Records among the rows of the ledger."""

    def __init__(self, tables: RowTables) -> None:
        self._tables = tables

    def read(self, owner: str, key: str) -> Record | None:
        row = self._tables.get("record", RUNS, owner=owner, key=key)
        return None if row is None else record_of(row)

    def write(self, record: Record, line: AuditLineRow | None = None, *, beside: Sequence[Record] = ()) -> bool:
        write = record_write(record)
        if line is not None or beside:
            writes = [write, *(record_write(other, follows=False) for other in beside)]
            return transact(self._tables, "write_record", writes, f"record {record.key} of {record.owner}", line)
        applied, refused = self._tables.write("write_record", write)
        return applied or (refused is not None and all(refused.get(n) == value for n, value in write.row.items()))

    def remove(self, record: Record) -> bool:
        row, present = {"owner": record.owner, "key": record.key}, Compare("version", "=", record.version)
        delete = RowWrite(table=RUNS, row=row, only_if=any_of(Absent("version"), present), kind="delete")
        return self._tables.write("remove_record", delete)[0]

    def listed(self, owner: str, prefix: str) -> Iterator[Record]:
        found = self._tables.rows("records", begins_with(RUNS, owner, prefix))
        return readable(found, record_of, "record.unreadable")


def record_write(record: Record, *, follows: bool = True) -> RowWrite:
    """The write of a record; if it ``follows``, over the version before it: before version 1 there is no row."""
    before = Compare("version", "=", record.version - 1) if record.version > 1 else Absent("version")
    return RowWrite(table=RUNS, row=record_row(record), only_if=before if follows else None)


def record_row(record: Record) -> dict[str, Any]:
    """A record as a row. Equal bodies give equal texts. None is not stored."""
    return {
        "owner": record.owner,
        "key": record.key,
        "version": record.version,
        "body": json.dumps(record.body, sort_keys=True, separators=(",", ":")),
        "ttl": None if record.expires is None else record.expires // SECOND,
    }


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


class RowDeadIndex:
    """Dead runs, a row for each."""

    def __init__(self, tables: RowTables) -> None:
        self._tables = tables

    def put(self, dead: DeadRunRow, *, expires: int) -> bool:
        return self._tables.write("index", dead_put(dead, expires))[0]

    def read(
        self, tenant: str, *, after: int, upto: int, only: Condition | None, before: str | None, page: int | None
    ) -> Iterator[DeadRunRow]:
        for owner, first, last in partitions(tenant, after=after, upto=upto, before=before):
            days = RowQuery(
                table=RUNS, partition=owner, first=first, last=last, only=only, newest_first=True, limit=page
            )
            rows = (row for row in self._tables.rows("read_dead", days) if row["key"] != before)
            found = readable(rows, dead_of, "dead.unreadable")
            yield from (dead for dead in found if dead.run.tenant == tenant)  # the key names the run, and who writes it

    def pages(
        self,
        tenant: str,
        *,
        after: int,
        upto: int,
        only: Condition | None,
        before: str | None,
        rows: int,
        on_read: OnRead,
    ) -> Iterator[tuple[Sequence[DeadRunRow], str]]:
        for owner, first, last in partitions(tenant, after=after, upto=upto, before=before):
            query = RowQuery(
                table=RUNS,
                partition=owner,
                first=first,
                last=last,
                only=only,
                newest_first=True,
                limit=rows,
                after=before if last == before else None,  # else a query of one row would read that one for ever
                on_read=on_read,
            )
            while True:
                lines, reached = self._tables.page("read_dead", query)
                found = readable(lines, dead_of, "dead.unreadable")
                yield [dead for dead in found if dead.run.tenant == tenant], reached or dead_day_over(owner)
                if reached is None:
                    break
                query = replace(query, after=reached)

    def mark(self, dead: DeadRunRow, *, redriven_as: str) -> bool:
        row, is_there = _key(dead) | {"redriven_as": redriven_as}, Compare("owner", "=", dead.owner)
        return self._tables.write("mark_redriven", RowWrite(table=RUNS, row=row, only_if=is_there))[0]

    def remove(self, dead: Sequence[DeadRunRow], line: AuditLineRow) -> bool:
        deletes = [
            RowWrite(table=RUNS, row=_key(each), only_if=Compare("owner", "=", each.owner), kind="delete")
            for each in dead
        ]
        return transact(self._tables, "remove_dead", deletes, f"the purge of {line.target}", line)


def _key(dead: DeadRunRow) -> Row:
    return {"owner": dead.owner, "key": dead.key}


_COLUMNS = ("job", "fence", "reason", "error_type", "error", "redriven_as")  # named as the fields


def dead_put(dead: DeadRunRow, expires: int) -> RowWrite:
    """The first write of a line that expires at ``expires`` (UTC ms). Run and time of death are in its key."""
    row = _key(dead) | {name: getattr(dead, name) for name in _COLUMNS}
    row |= {
        "attempt": dead.attempts,
        "schedule": dead.schedule,
        "state": None if dead.state is RunState.DEAD else str(dead.state),
        "ttl": expires // SECOND,
    }
    return put_new(RUNS, present(row))


@reads("line {key} of the index of dead runs")
def dead_of(row: Mapping[str, Any]) -> DeadRunRow:
    """A line from its row. Raises Unreadable, TooNew."""
    ended_at, run = parse_dead_key(row["key"])
    return DeadRunRow(
        run=run,
        ended_at=ended_at,
        attempts=row["attempt"],
        state=RunState(row.get("state", RunState.DEAD)),
        **{name: row[name] for name in _COLUMNS if name in row},
    )
