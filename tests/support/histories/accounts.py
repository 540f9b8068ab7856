"""What a history must account for: each act of an owner by a line of the audit, each end of a run and each incident by an event.

The acts are told from the rows before and after each request, at the tables themselves; the events are what a receiver got, which fails
like any other service.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from quarterjack.domain.audit import digest_of
from quarterjack.domain.history.outgoing_event import EVENT_TYPES, OutgoingEvent
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.notice import RECORD, SCHEDULE_EVENTS, Notice
from quarterjack.errors import Unavailable
from quarterjack.ports.receivers import FailedEvents
from quarterjack.stores.records import record_of
from quarterjack.stores.tables import AUDIT, REVISIONS, RUNS, SCHEDULES, Row, TableDefinition
from quarterjack.testing import Detail

from tests.support.histories.acts import kind, told
from tests.support.histories.simulator import Process, Stage

ENDS = frozenset({"SUCCEEDED", "DEAD", "LOST", "EXPIRED", "CANCELLED"})  # states that are events
Place = tuple[str, str]  # of a line or an act: which, and on what


class AuditWitness:
    """Sees every request that takes effect, and whether its lines are those of its acts."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._writes: list[tuple[TableDefinition, Row, Row | None, Row | None]] = []  # of the request under way
        self.lines, self.problems = Counter[Place](), list[str]()
        for table in (AUDIT, REVISIONS, RUNS, SCHEDULES):
            self._listen(table)

    def _listen(self, table: TableDefinition) -> None:
        kept: Any = self._stage.memory._tables[table]
        put, delete = kept.put, kept.delete

        def noted_put(partition: str, key: Any, value: Row) -> None:
            old = kept.get(partition, key)
            put(partition, key, value)
            self._note(table, partition, key, old, dict(value))

        def noted_delete(partition: str, key: Any, **more: Any) -> None:
            old = kept.get(partition, key)
            delete(partition, key, **more)
            self._note(table, partition, key, old, None)

        kept.put, kept.delete = noted_put, noted_delete

    def _note(self, table: TableDefinition, partition: str, key: Any, old: Row | None, new: Row | None) -> None:
        self._writes.append((table, {table.hash_key: partition, table.range_key: key}, old, new))

    def look(self) -> None:
        """After each request: compare what it wrote."""
        acts, lines = set[Place](), Counter[Place]()
        for table, key, old, new in self._writes:
            if table is AUDIT and new is not None and "act" in new:
                lines[str(new["act"]), str(new["object"])] += 1
                self.problems += [f"audit: {key} was written twice"] if old is not None else []
            elif table is AUDIT and new is None:
                self.problems.append(f"audit: {key} was removed")
            elif (act := told(table, key, old, new)) is not None:
                acts.add(act)
        self._writes.clear()
        if {(kind(act), where) for act, where in lines} != {(kind(act), where) for act, where in acts}:
            self.problems.append(f"audit: acts {sorted(acts)} with lines {dict(lines)}")
        self.lines += lines

    def violations(self) -> Iterator[str]:
        """What is wrong: also lines of the table that were not seen to be written, or are not whole."""
        self.look()
        yield from self.problems
        rows = [row for row in self._stage.memory.audit_rows() if "act" in row]
        there = Counter((str(row["act"]), str(row["object"])) for row in rows)
        if there != self.lines:
            yield f"audit: lines {dict(there - self.lines)} too many, {dict(self.lines - there)} missing"
        yield from (f"audit: {row['object']} is not whole" for row in rows if digest_of(row) != row["digest"])


class EventReceiver:
    """A receiver of events, and all that it got."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.taken: list[OutgoingEvent] = []
        stage.memory.schedule_events = frozenset(SCHEDULE_EVENTS.values())

    def seen_by(self, process: Process) -> EventSink:
        return EventSink(process, self.taken)

    def violations(self, changes: Sequence[RunChange]) -> Iterator[str]:
        """Each end and each incident is an event, under one id; no event is of anything else."""
        ids = defaultdict[tuple[str, str], set[str]](set)
        for event in self.taken:
            number = event.data["incident"] if event.type.startswith("schedule.") else event.data["sequence"]
            ids[event.about, f"{number}{event.type}"].add(event.id)
        due = {place for change in changes if (place := _end_of(change)) is not None}
        due |= {(notice.owner, notice.incident + SCHEDULE_EVENTS[notice.kind]) for notice in self._notices()}
        yield from (f"event missing: {place}" for place in sorted(due - set(ids)))
        yield from (f"event invented: {place}" for place in sorted(set(ids) - due))
        yield from (f"event under {len(found)} ids: {place}" for place, found in ids.items() if len(found) > 1)
        if len(set().union(*ids.values())) < len(ids):
            yield "event: two have one id"

    def _notices(self) -> Iterator[Notice]:
        for _, key, row in self._stage.memory._tables[RUNS]:
            if str(key).startswith(RECORD):
                notice = Notice.of(record_of(row).body["notice"])
                if notice.kind in SCHEDULE_EVENTS:
                    yield notice


class EventSink:
    """The receiver as one process reaches it."""

    types = EVENT_TYPES

    def __init__(self, process: Process, taken: list[OutgoingEvent]) -> None:
        self._process, self._taken = process, taken

    def publish(self, events: Sequence[OutgoingEvent]) -> FailedEvents:
        detail = Detail(place="events", verb="publish", items=tuple(event.id for event in events))
        throttled = set(self._process.before_call("PutEvents", detail))
        self._taken += (event for place, event in enumerate(events) if place not in throttled)
        self._process.after_call("PutEvents", detail)
        if throttled:
            raise Unavailable("injected: some were not taken")
        return {}


def _end_of(change: RunChange) -> tuple[str, str] | None:
    """The end of a run that this change was, as far as its rows tell."""
    before = None if change.old is None else change.old.state
    if change.new is None or change.new.state not in ENDS or change.new.state == before:
        return None
    return str(change.ref), f"{change.sequence:040d}run.{change.new.state.lower()}"
