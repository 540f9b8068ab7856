"""What a parked run waits for, as it will be after a restore: whether the run would go on at once.

A run that waits for others ends its wait by itself when these have ended, and lets the next task or item start. After a restore that may
have happened before, unknown to the archive. So such a run is held, for its owner to let it go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quarterjack.domain.history.transition_line import TransitionLine
from quarterjack.domain.names import RunRef, parse_run_id
from quarterjack.domain.run import RunRow, RunState
from quarterjack.errors import NotFound, Unavailable
from quarterjack.fires.parking import child_steps, map_of_step
from quarterjack.fires.pipelines.rows import read_pipeline
from quarterjack.fires.windows.advance import read_window
from quarterjack.ports.services import Services
from quarterjack.restore.fates import Fate, decide, row_of
from quarterjack.restore.steps import Known, Restore
from quarterjack.state.pipelines.decide import decide as next_tasks
from quarterjack.state.pipelines.decide import mark_of
from quarterjack.state.waits.asked import child_ref
from quarterjack.state.waits.batch import counts_of, item_ref
from quarterjack.state.waits.park import (
    LETTERS,
    RUN,
    TASKS,
    awaited_children,
    awaited_map,
    batch_size,
    signal_of,
)
from quarterjack.values import replace

_PART = 100  # rows of one read


class RestoredWaits:
    """The waits of parked runs, by the rows and the archive."""

    def __init__(self, known: Known, restore: Restore, services: Services) -> None:
        self._known, self._restore, self._services = known, restore, services

    def go_on(self, run: RunRow) -> bool:
        """Whether a parked run would go on, or something below it start, with nobody's decision. Raises Unavailable."""
        size, signal, step, awaits = batch_size(run), signal_of(run), awaited_map(run), run.awaits or ""
        if size is not None:
            return self.counts(run) is not None
        if signal is not None:
            return self._services.waits.signal(run.ref, signal) is not None
        if step is not None:
            return self._map_goes_on(map_of_step(run.ref, step))
        if awaits.startswith(RUN):
            before = parse_run_id(awaits.removeprefix(RUN))
            return _has_ended(self._rows([before]).get(before), gone=True)
        if awaits.startswith(TASKS):
            return self._tasks_go_on(run)
        return self._children_have_ended(run)

    def counts(self, run: RunRow) -> str | None:
        """The payload of the run after a batch; None: it is none, or not all items have ended. Raises Unavailable."""
        size = batch_size(run)
        if size is None:
            return None
        ends = dict(self._services.waits.ends(run.ref, range(1, size + 1)))
        left = [number for number in range(1, size + 1) if number not in ends]
        rows = self._rows(item_ref(run.ref, number) for number in left)
        found = {number: rows.get(item_ref(run.ref, number)) for number in left}
        ends |= {number: LETTERS[row.state] for number, row in found.items() if row is not None and row.is_terminal}
        return counts_of(run.ref.owner.partition("/~")[2], size, ends) if len(ends) == size else None

    def _children_have_ended(self, run: RunRow) -> bool:
        awaited, steps = set(awaited_children(run)), child_steps(run, self._services)
        left = awaited - self._services.waits.ended(run.ref, awaited)
        refs = [child_ref(run.ref, steps[number]) for number in left if number in steps]
        rows = self._rows(refs)
        return bool(awaited) and all(_has_ended(rows.get(ref), gone=True) for ref in refs)

    def _tasks_go_on(self, run: RunRow) -> bool:
        """Whether a task would start that has no run. A pipeline whose tasks have all ended has nothing more to start: it ends."""
        try:
            pipeline = read_pipeline(run, self._services)
        except NotFound:  # as the check of the wait finds it: the run fails
            return False
        if pipeline is None:
            return False
        marks = pipeline.marks(self._services)
        refs = {
            number: pipeline.ref(number) for number in range(1, len(pipeline.graph.tasks) + 1) if number not in marks
        }
        rows = self._rows(refs.values())
        marks |= {number: mark_of(rows[ref]) for number, ref in refs.items() if _has_ended(rows.get(ref))}
        return any(refs[number] not in rows for number in next_tasks(pipeline.graph, marks).start)

    def _map_goes_on(self, ref: RunRef) -> bool:
        """Whether an item would start that has no run, or all have ended."""
        window = read_window(ref, self._services)
        while window is not None:
            marks = dict(self._services.waits.ends(ref, window.open)) if window.open else {}
            left = [number for number in window.open if number not in marks]
            rows = self._rows(window.item(number) for number in left)
            found = {number: rows.get(window.item(number)) for number in left}
            if None in found.values():
                return True
            marks |= {
                number: LETTERS[row.state] for number, row in found.items() if row is not None and row.is_terminal
            }
            after = window.counted(marks)
            if after.is_over:
                return True
            window = after.entered() if after.room else None
        return False

    def _rows(self, refs: Iterable[RunRef]) -> Mapping[RunRef, RunRow]:
        """The rows of runs as they will be, of those that the ledger or the archive knows. Raises Unavailable."""
        wanted, found = list(refs), dict[RunRef, RunRow]()
        for start in range(0, len(wanted), _PART):
            part = wanted[start : start + _PART]
            looked = self._services.ledger.look(part)
            if looked.unanswered:
                raise Unavailable(f"run {min(looked.unanswered)} could not be read; run it again")
            for ref in part:
                row = self._as_restored(looked.found.get(ref), self._known.get(ref))
                if row is not None:
                    found[ref] = row
        return found

    def _as_restored(self, row: RunRow | None, line: TransitionLine | None) -> RunRow | None:
        """A run after the restore, as far as its state goes."""
        if row is None and (line is None or line.after is None):
            return None
        fate = decide(row, line, epoch=self._restore.epoch, until=self._restore.until)
        if row is None:
            assert line is not None
            if fate.fate is Fate.STAYS:
                return None
            return row_of(line, fate, epoch=self._restore.epoch, until=self._restore.until)
        if fate.fate is Fate.ENDS and line is not None and line.after is not None:
            return replace(row, state=line.after, reason=line.reason)
        return replace(row, state=RunState.RETRYING) if fate.fate is Fate.HELD else row


def _has_ended(row: RunRow | None, *, gone: bool = False) -> bool:
    """``gone``: what holds of a run that nobody knows any more."""
    return gone if row is None else row.is_terminal
