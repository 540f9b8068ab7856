"""Reschedule a one-off: a run that was never leased is due at another time, earlier or later.

One transaction has the run's row, its new agenda entry, the removal of the old one and the line of the audit, so there is nothing to
finish after a crash. The run's revision grows with it, and everything that is under way for the old time names the old revision: its
messages, and the leases and expiries of workers that read the row before. The guards of these refuse it.
"""

from __future__ import annotations

from dataclasses import replace

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.history.entry import RunKind, kind_of
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import from_ms
from quarterjack.errors import Conflict, InvalidInput
from quarterjack.fires.acts import line_of
from quarterjack.fires.context import LOOKAHEAD, FireContext, run_must_exist
from quarterjack.owner.runs.submit import entry_of, send_now
from quarterjack.state.before_start import reschedule

_ROUNDS = 5  # times that a run may change between the read and the write
_OTHERS = {
    RunKind.FIRE: "change the schedule, or skip the fire with skip_next() and submit() a one-off",
    RunKind.BACKFILL: "cancel the backfill, and start one when its runs may start",
    RunKind.TRIGGER: "a triggered run starts at once; cancel it with cancel_run(), and trigger() when it may start",
}


def reschedule_run(run: RunRow, due: int, context: FireContext) -> RunRow:
    """The run is due at ``due`` (UTC ms). ``run`` as it was just read.

    Raises InvalidInput for a run that is no one-off, Conflict for one that has begun or ended, Unavailable.
    """
    if not run.ref.is_one_off:
        kind = kind_of(run)
        raise InvalidInput("run_id", str(run.ref), f"is a {kind} of schedule {run.ref.schedule!r}", _OTHERS[kind])
    for _ in range(_ROUNDS):
        if run.state is not RunState.QUEUED:
            raise Conflict(f"run_id={str(run.ref)!r}: {_too_late(run)}")
        if run.due == due == run.not_before:
            return run
        applied, run = _move(run, due, context)
        if applied:
            return run
    raise Conflict(f"run_id={str(run.ref)!r}: it changed {_ROUNDS} times meanwhile; reschedule it again")


def _move(run: RunRow, due: int, context: FireContext) -> tuple[bool, RunRow]:
    """Whether the run was moved, and the run as it is now."""
    services, now = context.services, context.clock()
    line = line_of(
        AuditAct.RESCHEDULE, str(run.ref), context, was=from_ms(run.due).isoformat(), due=from_ms(due).isoformat()
    )
    after = replace(run, due=due, not_before=due, revision=run.revision + 1)
    entry = entry_of(after, services, now)
    transition = reschedule(revision=run.revision, due=due)
    moved = services.ledger.reschedule(run.ref, transition, put=entry, remove=entry_of(run, services, now), line=line)
    there = run_must_exist(run.ref, moved.run)
    if moved.applied and due <= context.clock() + LOOKAHEAD:
        send_now(there, entry, context)
    return moved.applied, there


def _too_late(run: RunRow) -> str:
    if run.is_terminal:
        return f"it is {run.state}, so it cannot be moved; replay_run() makes a new run with the same payload"
    if run.state is RunState.RUNNING:
        return "it has begun, so it cannot be moved; cancel_run() asks it to end"
    return f"it has begun and is {run.state}; retry_run() starts its next attempt now, cancel_run() ends it"
