"""The index of dead runs: rows of the table of runs, in partitions of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quarterjack.domain.audit import AuditEntryRow
from quarterjack.domain.history.dead_run import DeadRunRow, dead_day_over, parse_dead_key, partitions
from quarterjack.domain.run import RunState
from quarterjack.domain.times import SECOND
from quarterjack.state.transition import Compare, Condition
from quarterjack.stores.audit import transact
from quarterjack.stores.paging import OnRead
from quarterjack.stores.rows import present, readable, reads
from quarterjack.stores.tables import RUNS, Row, RowQuery, RowTables, RowWrite, put_new
from quarterjack.values import replace


class DeadIndex:
    """One line for each dead run. Only the undertaker writes lines, so that other runs cost nothing here."""

    def __init__(self, tables: RowTables) -> None:
        self._tables = tables

    def put(self, dead: DeadRunRow, *, expires: int) -> bool:
        """Put a line that expires at ``expires`` (UTC ms); False, and nothing is written, if it exists."""
        return self._tables.write("index", dead_put(dead, expires))[0]

    def read(
        self, tenant: str, *, after: int, upto: int, only: Condition | None, before: str | None, page: int | None
    ) -> Iterator[DeadRunRow]:
        """A tenant's runs that died in ``(after, upto]`` (UTC ms), newest first. Pages are read as the iterator advances.

        ``only``: a condition on the line. ``before``: only lines beyond this key. ``page``: lines of one query; None: as many as fit.
        """
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
        """As ``read``, a query of so many ``rows`` at a time: the runs that meet ``only``, and the key from which the next query goes on.

        ``on_read`` gets the read units of each query.
        """
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
        """Write the id of the run that repeats this one; False if the line no longer exists."""
        row, is_there = _key(dead) | {"redriven_as": redriven_as}, Compare("owner", "=", dead.owner)
        return self._tables.write("mark_redriven", RowWrite(table=RUNS, row=row, only_if=is_there))[0]

    def remove(self, dead: Sequence[DeadRunRow], audit: AuditEntryRow) -> bool:
        """Delete at most 98 lines in one transaction with ``audit``; False, and nothing is deleted, if one does not exist."""
        deletes = [
            RowWrite(table=RUNS, row=_key(each), only_if=Compare("owner", "=", each.owner), kind="delete")
            for each in dead
        ]
        return transact(self._tables, "remove_dead", deletes, f"the purge of {audit.target}", audit)


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
