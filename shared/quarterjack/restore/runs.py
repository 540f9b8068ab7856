"""The runs of a restore: every run that the archive knows since the restored time, and every row that has not ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from quarterjack.domain.history.dead_run import dead_run_row
from quarterjack.domain.history.transition_line import TransitionLine
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import FAILED, RunRow, RunState
from quarterjack.errors import Unavailable
from quarterjack.fires.context import FAR, FireContext, find_revision
from quarterjack.fires.plan import timetable_of
from quarterjack.owner.runs.submit import entry_of, put_entry, wait_timer
from quarterjack.ports.services import Services
from quarterjack.restore.fates import NO_DEFINITION, Fate, FateOfRun, decide, end_as, hold, keep, lose, row_of
from quarterjack.restore.steps import Known, Restore, RestoreStep, StepKind, must
from quarterjack.restore.waits import RestoredWaits
from quarterjack.state.transition import Transition
from quarterjack.timing import fires
from quarterjack.values import replace

SEGMENTS = 8  # parts of the ledger, read side by side
_BATCH = 100  # rows of one read
_KINDS = {
    Fate.ENDS: StepKind.END_RUN,
    Fate.HELD: StepKind.HOLD_RUN,
    Fate.KEPT: StepKind.KEEP_RUN,
    Fate.LOST: StepKind.LOSE_RUN,
}


def open_runs(services: Services) -> Iterator[RunRow]:
    """All runs that have not ended, read strongly."""
    parts = dict.fromkeys(range(SEGMENTS), "")
    while parts:
        page, parts = services.upkeep.unfinished(parts, segments=SEGMENTS)
        refs = [run.ref for run in page]
        for start in range(0, len(refs), _BATCH):
            yield from _read(refs[start : start + _BATCH], services).values()


def run_steps(restore: Restore, known: Known, context: FireContext) -> Iterator[RestoreStep]:
    """The steps of all runs."""
    decides = _Decides(known, restore, context)
    refs = sorted(known)
    for start in range(0, len(refs), _BATCH):
        rows = _read(refs[start : start + _BATCH], context.services)
        for ref in refs[start : start + _BATCH]:
            yield from decides.steps(ref, rows.get(ref), known[ref])
    for row in open_runs(context.services):
        if row.ref not in known:
            yield from decides.steps(row.ref, row, None)


def _read(refs: Sequence[RunRef], services: Services) -> Mapping[RunRef, RunRow]:
    answer = services.ledger.look(refs)
    if answer.unanswered:
        raise Unavailable(f"run {min(answer.unanswered)} could not be read; run it again")
    return answer.found


class _Decides:
    """Decides on runs, and applies what was decided."""

    def __init__(self, known: Known, restore: Restore, context: FireContext) -> None:
        self._restore, self._services = restore, context.services
        self._waits = RestoredWaits(known, restore, context.services)
        self._defined: dict[tuple[str, int], bool] = {}

    def steps(self, ref: RunRef, row: RunRow | None, line: TransitionLine | None) -> Iterator[RestoreStep]:
        if row is not None and _is_of_backfill(row, line):
            return
        restore = self._restore
        decision = decide(row, line, epoch=restore.epoch, until=restore.until, goes_on=self._waits.go_on)
        if decision.fate is Fate.STAYS or (decision.fate is Fate.KEPT and row is not None and _is_of_chain(row)):
            return
        if decision.fate in (Fate.HELD, Fate.KEPT) and not self._is_defined(ref, row, line):
            decision = NO_DEFINITION
        apply = partial(self._apply, row, line, decision)
        yield RestoreStep(kind=_KINDS[decision.fate], target=str(ref), why=decision.why, apply=apply)

    def _is_defined(self, ref: RunRef, row: RunRow | None, line: TransitionLine | None) -> bool:
        """Whether a table has the revision that defines a run of a schedule."""
        if ref.is_one_off:
            return True
        number = row.defined_by or row.revision if row is not None else line.revision if line is not None else 0
        key = (ref.owner, number)
        if key not in self._defined:
            self._defined[key] = find_revision(*key, self._services) is not None
        return self._defined[key]

    def _apply(self, row: RunRow | None, line: TransitionLine | None, decision: FateOfRun) -> None:
        services = self._services
        if row is None:
            assert line is not None
            _put(line, decision, self._restore, services)
            return
        if decision.fate is Fate.KEPT:
            _put_timer(row, services, self._restore)
        if decision.fate is Fate.LOST:
            until = self._restore.until
            _list(replace(row, state=RunState.LOST, reason=decision.why, ended_at=until, buried_at=until), services)
        elif decision.fate is Fate.ENDS and line is not None:
            _list(row_of(line, decision, epoch=self._restore.epoch, until=self._restore.until), services)
        must([services.ledger.move(row.ref, self._move_of(row, line, decision)).applied], str(row.ref))

    def _move_of(self, row: RunRow, line: TransitionLine | None, decision: FateOfRun) -> Transition:
        epoch, retention = self._restore.epoch, self._services.retention
        match decision.fate:
            case Fate.KEPT:
                return keep(row, epoch=epoch)
            case Fate.ENDS:
                assert line is not None
                return end_as(row, line, retention=retention)
            case Fate.LOST:
                return lose(row, epoch=epoch, now=self._restore.until, retention=retention, why=decision.why)
            case _:
                counts = self._waits.counts(row) if row.state is RunState.PARKED and row.started_at is None else None
                return hold(row, epoch=epoch, why=decision.why, seen=line.fence if line else 0, payload=counts)


def _is_of_backfill(row: RunRow, line: TransitionLine | None) -> bool:
    """Whether the pause of its backfill takes it back."""
    return row.state is RunState.QUEUED and row.backfill is not None and (line is None or not line.fence)


def _is_of_chain(row: RunRow) -> bool:
    """Whether the schedule's new revision takes it over."""
    return row.state is RunState.QUEUED and row.ref.is_fire and row.backfill is None


def _put(line: TransitionLine, decision: FateOfRun, restore: Restore, services: Services) -> None:
    last = _last_missed(line, services) if line.skipped else None
    run = row_of(line, decision, epoch=restore.epoch, until=restore.until, last=last)
    _list(run, services)
    answer = services.ledger.claim([run])
    if run.ref not in answer.created and run.ref not in answer.existing:
        raise Unavailable(f"run {run.ref} was not accepted; run it again")


def _list(run: RunRow, services: Services) -> None:
    """List a run that failed for good, before its row says so: its owner has been told, or will read it there."""
    if run.state in FAILED and run.buried_at is not None:
        services.dead_index.put(dead_run_row(run), expires=run.buried_at + services.retention)


def _last_missed(line: TransitionLine, services: Services) -> int | None:
    """The last of the missed fires that a row stood for (UTC ms), counted from the first; None: its revision is gone."""
    revision = find_revision(line.ref.owner, line.revision, services)
    if revision is None or line.due is None or not line.skipped:
        return None
    return next(islice(fires(timetable_of(revision), line.due - 1, FAR), line.skipped - 1, None), None)


def _put_timer(row: RunRow, services: Services, restore: Restore) -> None:
    """The agenda may be of an earlier time than the run."""
    parked = row.state is RunState.PARKED
    entry = wait_timer(row, services, restore.until) if parked else entry_of(row, services, restore.until)
    put_entry(replace(entry, created_at=restore.until), services)
