"""The chronicle of a history: every write of a run's row, a head, a revision or a freeze, by whom, by which call, and when.

It is kept outside of the flow, at the tables themselves, and forgets nothing: rows say what is, the chronicle says what happened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import Head, Revision, freeze_key
from quarterjack.stores.rows import run_of
from quarterjack.stores.schedule_rows import freeze_of, head_of, revision_of
from quarterjack.stores.tables import REVISIONS, RUNS, SCHEDULES, Row, TableDefinition

from tests.support.histories.simulator import Process, Stage


@dataclass(kw_only=True)
class Event:
    """One write of one row."""

    call: int  # calls of the whole history by then
    at: int  # UTC ms, by the stage's clock
    looked: int  # UTC ms at which the writer last looked at its clock
    process: str  # who wrote
    skew: int  # ms by which its clock is off
    verb: str = ""  # of the request
    row: Row | None = None  # afterwards; None: it was removed

    @property
    def is_by_owner(self) -> bool:
        return self.process.startswith("owner")


@dataclass
class Chronicle:
    """All of it, by table and key."""

    stage: Stage
    events: dict[str, dict[tuple[str, Any], list[Event]]] = field(
        default_factory=lambda: {table.suffix: defaultdict(list) for table in (RUNS, SCHEDULES, REVISIONS)}
    )
    _unnamed: list[Event] = field(default_factory=list)  # whose request has not returned to the stage

    def __post_init__(self) -> None:
        for table in (RUNS, SCHEDULES, REVISIONS):
            self._listen(table)

    def _listen(self, table: TableDefinition) -> None:
        kept: Any = self.stage.memory._tables[table]
        put, delete = kept.put, kept.delete

        def noted_put(partition: str, key: Any, value: Row) -> None:
            put(partition, key, value)
            self._note(table, partition, key, dict(value))

        def noted_delete(partition: str, key: Any, **more: Any) -> None:
            delete(partition, key, **more)
            self._note(table, partition, key, None)

        kept.put, kept.delete = noted_put, noted_delete

    def _note(self, table: TableDefinition, partition: str, key: Any, row: Row | None) -> None:
        process = self.stage.process_of_thread()
        event = Event(
            call=self.stage.calls,
            at=self.stage.now,
            looked=self.stage.now if process is None else process.looked,
            process="" if process is None else process.name,
            skew=0 if process is None else process.skew,
            row=row,
        )
        self.events[table.suffix][partition, key].append(event)
        self._unnamed.append(event)

    def look(self, process: Process, detail: Any) -> None:
        """After each call: what it was."""
        del process
        for event in self._unnamed:
            event.verb = detail.verb
        self._unnamed.clear()

    # What was, once so many calls were made.

    def of_run(self, ref: RunRef, call: int) -> list[Event]:
        """The writes of a run's row by then."""
        return [event for event in self.events[RUNS.suffix].get((ref.owner, ref.key), []) if event.call <= call]

    def runs(self, owner: str, call: int) -> Iterator[tuple[RunRow, list[Event]]]:
        """The runs of a schedule as they were then, gaps included."""
        for of, key in list(self.events[RUNS.suffix]):
            if of == owner and key[0].isdigit() and "#" not in key:
                events = self.of_run(RunRef(of, key), call)
                if events and events[-1].row is not None:
                    yield run_of(events[-1].row), events

    def heads(self, tenant: str, name: str, call: int) -> list[Head]:
        """All versions of a head by then, oldest first."""
        events = self.events[SCHEDULES.suffix].get((tenant, name), [])
        return [head_of(event.row) for event in events if event.call <= call and event.row is not None]

    def revisions(self, owner: str, call: int) -> list[Revision]:
        """The revisions as they were then, oldest first."""
        found = []
        for (of, number), events in self.events[REVISIONS.suffix].items():
            known = [event for event in events if event.call <= call and event.row is not None]
            if of == owner and number and known:
                found.append(revision_of(known[-1].row or {}))
        return sorted(found, key=lambda one: one.number)

    def frozen(self, tenant: str, since: int, now: int) -> bool:
        """Whether a freeze of the tenant was written by ``now`` that had not ended at ``since`` (UTC ms)."""
        events = self.events[REVISIONS.suffix].get(freeze_key(tenant), [])
        known = [event.row for event in events if event.at <= now and event.row is not None]
        return any(freeze_of(row).until > since for row in known)

    def changes(self, owner: str, began: int, ended: int) -> list[int]:
        """The calls after ``began`` up to ``ended`` at which anything of a schedule, or its runs, was written."""
        tenant, _, name = owner.partition("/")
        ours = [
            event
            for table in self.events.values()
            for (partition, key), events in table.items()
            if partition == owner or (partition, key) == (tenant, name)
            for event in events
        ]
        return sorted({event.call for event in ours if began < event.call <= ended})
