"""Histories with backfills."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from quarterjack import Scheduler
from quarterjack.domain.names import RunRef, fire_ref, schedule_owner
from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import ScheduleState
from quarterjack.domain.times import SECOND, from_ms
from quarterjack.errors import QuarterjackError
from quarterjack.owner.backfill.records import backfills_of
from quarterjack.state.backfill import BackfillOrder, BackfillState, StoredBackfill
from quarterjack.testing import Detail
from quarterjack.timing import fires, timetable

from tests.support.histories.history import History
from tests.support.histories.simulator import Faults, Process

NAMES = ("a", "b")


ACTS = ("start", "start", "start", "pause", "resume", "cancel")


class Filling(History):
    """A history whose owners backfill as well, and what was seen of that."""

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        self.seen.stage.observer = self._look
        self.crowded: set[str] = set()  # backfills that had too much under way
        self.stops: list[tuple[str, int]] = []  # id, and the UTC ms at which a cancellation had returned
        self.begun: defaultdict[str, list[tuple[RunRef, int]]] = defaultdict(list)  # id → first leases, UTC ms

    def judged(self) -> list[str]:
        return self.run() + self.violations()

    # What they do.

    def _owner(self, process: Process) -> None:
        if self.dice.random() < 0.5:
            super()._owner(process)
            return
        owner = Scheduler("acme", jobs=self.jobs, services=process.services, clock=process.clock)
        try:
            self._fill(self.dice.choice(ACTS), owner, process, self.dice.choice(NAMES))
        except QuarterjackError:
            self.stage.count("refused acts")

    def _fill(self, act: str, owner: Scheduler, process: Process, name: str) -> None:
        self.stage.count(f"{act} backfill")
        if act == "start":
            until = process.clock() - self.dice.choice([0, 60, 300]) * SECOND
            start = from_ms(until - self.dice.choice([60, 200, 600]) * SECOND)
            order = self.dice.choice(list(BackfillOrder))
            current, most = self.dice.random() < 0.7, self.dice.choice([2, 3, 5])
            owner.backfill(name, start, from_ms(until), order=order, concurrency=most, current=current, dry_run=False)
            return
        known = [found.id for found in owner.list_backfills(name) if found.ended_at is None]
        if known:
            chosen = self.dice.choice(known)
            getattr(owner, f"{act}_backfill")(name, chosen)
            if act == "cancel":
                self.stops.append((str(chosen), self.stage.now))

    # What is seen.

    def _look(self, process: Process, detail: Detail) -> None:
        self.seen.look(process, detail)
        if detail.verb == "lease":
            row = self.stage.memory.row(RunRef(*detail.items[0]))  # type: ignore[misc]
            if row is not None and row.get("backfill") and row["fence"] == 1:
                begun = self.begun[row["backfill"]]
                if row["state"] == "RUNNING" and RunRef(row["owner"], row["key"]) not in {ref for ref, _ in begun}:
                    begun.append((RunRef(row["owner"], row["key"]), self.stage.now))
        elif detail.verb in ("claim", "revive"):
            self._count()

    def _count(self) -> None:
        going = Counter(run.backfill for run in self.stage.memory.runs() if not run.is_terminal)
        for backfill in self.kept():
            if going[backfill.id] > backfill.concurrency:
                self.crowded.add(backfill.id)

    def kept(self) -> Iterator[StoredBackfill]:
        unseen = self.stage.memory.connect()
        for name in NAMES:
            yield from backfills_of(schedule_owner("acme", name), unseen)

    # What must hold.

    def violations(self) -> list[str]:
        runs = {run.ref: run for run in self.stage.memory.runs()}
        found = [f"crowded: {backfill}" for backfill in self.crowded]
        found += [
            f"after stop: {ref} of {backfill} at +{at - stop} ms"
            for backfill, stop in self.stops
            for ref, at in self.begun[backfill]
            if at > stop
        ]
        for backfill in self.kept():
            self.stage.count(f"backfills {backfill.state}")
            found += self._unfinished(backfill, runs)
        return found

    def _unfinished(self, backfill: StoredBackfill, runs: dict[RunRef, RunRow]) -> Iterator[str]:
        head = next(head for head in self.stage.memory.heads() if head.owner == backfill.owner)
        if backfill.state is BackfillState.RUNNING and head.state is not ScheduleState.PAUSED:
            yield f"not over: {backfill}"
        if backfill.state is not BackfillState.DONE:
            return
        counted = backfill.done + backfill.skipped
        if counted != backfill.total:
            yield f"counted {counted} of {backfill.total}: {backfill.id}"
        for part in backfill.spans:
            (revision,) = (r for r in self.stage.memory.revisions(backfill.owner) if r.number == part.revision)
            table = timetable(revision.definition.rule, anchor=part.anchor, key=backfill.owner)
            for fire in fires(table, part.after, part.upto):
                if fire_ref(backfill.owner, fire) not in runs:
                    yield f"passed over: {fire} of {backfill.id}"
