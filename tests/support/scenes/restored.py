"""An installation whose tables are put back, each to another write: a journal of every row, and what a restore must hold.

A table of DynamoDB is restored by itself, to a second. The writes of one transaction are neighbours in the journal, so tables that are
put back to neighbouring writes have halves of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from quarterjack import Context, Registry, Retry, Scheduler
from quarterjack.domain.run import RunRow
from quarterjack.domain.tenants.caller import role
from quarterjack.domain.times import SECOND
from quarterjack.fires.context import FireContext
from quarterjack.restore import reconcile as restoring
from quarterjack.restore.steps import Restore, RestoreStep
from quarterjack.stores.agenda import CONFIG
from quarterjack.stores.tables import AGENDA, AUDIT, TABLES, Row, TableDefinition
from quarterjack.testing import Harness, Hook
from quarterjack.testing.memory.calls import MemoryTable

START = datetime(2026, 5, 4, 8, 0, tzinfo=UTC)
_PUT: Any = MemoryTable.put  # the stream of the runs sees nothing of it
SOURCE = "source"  # the name that the tables had


class Journal:
    """Every write to the tables of an installation, from now on."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._before: dict[TableDefinition, dict[tuple[str, Any], Row]] = {}
        self.writes: list[tuple[int, TableDefinition, str, Any, Row | None]] = []  # with the UTC ms
        for table, content in harness.memory._tables.items():
            self._before[table] = {(of, key): row for of, key, row in content}
            self._listen(table, content)

    def _listen(self, table: TableDefinition, content: MemoryTable[Any, Row]) -> None:
        put, delete = content.put, content.delete

        def noted_put(partition: str, key: Any, value: Row) -> None:
            self.writes.append((self._harness.clock(), table, partition, key, value))
            put(partition, key, value)

        def noted_delete(partition: str, key: Any, **how: Any) -> None:
            self.writes.append((self._harness.clock(), table, partition, key, None))
            delete(partition, key, **how)

        content.put, content.delete = noted_put, noted_delete  # type: ignore[method-assign]

    def rows(self, table: TableDefinition, upto: int) -> dict[tuple[str, Any], Row]:
        """The rows of a table as they were after so many writes to the installation."""
        found = dict(self._before[table])
        for _, of, partition, key, row in self.writes[:upto]:
            if of is not table:
                continue
            if row is None:
                found.pop((partition, key), None)
            else:
                found[partition, key] = row
        return found

    def put_back(self, cuts: Mapping[TableDefinition, int]) -> None:
        """Put each table back to its own write, under another name; the stream of the runs sees nothing of it."""
        for table in TABLES:
            content = self._harness.memory._tables[table]
            content._partitions.clear()
            for (partition, key), row in self.rows(table, cuts[table]).items():
                _PUT(content, partition, key, row)
        agenda = self._harness.memory._tables[AGENDA]
        config = agenda.get(*CONFIG.values())
        if config is not None:
            _PUT(agenda, *CONFIG.values(), config | {"tables": SOURCE})

    def point(self, cuts: Mapping[TableDefinition, int]) -> int:
        """The earliest time of these writes, as an operator knows it: in whole seconds."""
        return min(self.writes[max(cut - 1, 0)][0] for cut in cuts.values()) // SECOND * SECOND


class Restored:
    """Jobs that count their starts, a harness, and its journal."""

    def __init__(self) -> None:
        self.starts = Counter[str]()
        self.fails = Counter[str]()  # attempts that are left to fail, by run
        self.jobs = Registry()
        self._add_jobs(self.jobs)
        self.harness = Harness(self.jobs, at=START)
        self.memory, self.clock, self.scheduler = self.harness.memory, self.harness.clock, self.harness.scheduler
        self.journal = Journal(self.harness)

    def _add_jobs(self, jobs: Registry) -> None:
        retry = Retry(max_attempts=3, base=600.0, backoff="fixed", jitter=0.0)
        jobs.job("note", retry=retry)(self._note)
        jobs.job("nap")(self._nap)

    def _note(self, ctx: Context, payload: object) -> None:
        self.starts[ctx.run_id] += 1
        if isinstance(payload, dict) and self.fails[ctx.run_id] < payload.get("fails", 0):
            self.fails[ctx.run_id] += 1
            raise ValueError("not yet")

    def _nap(self, ctx: Context, payload: object) -> None:
        self.starts[ctx.run_id] += 1
        ctx.sleep(1_800)

    @property
    def now(self) -> int:
        return self.clock()

    def cuts(self, *at: int) -> dict[TableDefinition, int]:
        """The tables in their order, each after so many writes."""
        return dict(zip(TABLES, at, strict=True))

    def lose(self, cuts: Mapping[TableDefinition, int]) -> int:
        """Everything was archived, and the tables are put back: the point for the restore."""
        self.harness._follow()
        self.journal.put_back(cuts)
        return self.journal.point(cuts)

    def context(self, hook: Hook | None = None) -> FireContext:
        return FireContext(services=self.memory.connect(hook), clock=self.clock, caller=role("operator"))

    def plan(self, point: int, **how: Any) -> list[RestoreStep]:
        return list(restoring.plan(point, self.context(), **how))

    def restore(self, point: int, hook: Hook | None = None, **how: Any) -> Restore:
        return restoring.run(point, self.context(hook), **how)

    def held(self) -> list[RunRow]:
        return [run for run in self.memory.runs() if run.is_undecided]

    def owner(self) -> Scheduler:
        """Another process of the owner."""
        return Scheduler("default", jobs=self.jobs, services=self.memory.connect(), clock=self.clock)

    def saved(self) -> dict[TableDefinition, list[tuple[str, Any, Row]]]:
        return {table: list(self.memory._tables[table]) for table in TABLES}

    def put_saved(self, saved: Mapping[TableDefinition, list[tuple[str, Any, Row]]]) -> None:
        for table, rows in saved.items():
            self.memory._tables[table]._partitions.clear()
            for partition, key, row in rows:
                _PUT(self.memory._tables[table], partition, key, row)

    def content(self) -> dict[str, list[Row]]:
        """All rows but those of the audit, and without the version of the restore's record."""
        found = {
            table.suffix: [row for _, _, row in rows] for table, rows in self.saved().items() if table is not AUDIT
        }
        found["runs"] = [row | {"version": 0} if row["owner"] == restoring.OWNER else row for row in found["runs"]]
        return found
