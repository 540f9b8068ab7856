"""Which transition a change of a run's row was, read from the row before and after it."""

from __future__ import annotations

from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.history.transition_line import TransitionKind, TransitionLine
from quarterjack.domain.run import FAILED, RunRow, RunState


def transition_of(change: RunChange) -> TransitionLine | None:
    """The transition that a change reports; None for a heartbeat, a mark that says nothing of the run, and what has expired.

    One write of a row is one transition at most: see ``state``.
    """
    kind = None if change.expired else _kind(change.old, change.new)
    row = change.new or change.old
    if kind is None or row is None:
        return None
    failure = row.failure if kind is TransitionKind.RETRIED or row.state in FAILED else None
    return TransitionLine(
        ref=change.ref,
        kind=kind,
        sequence=change.sequence,
        at=change.at,
        job=row.job,
        revision=row.revision,
        fence=row.fence,
        attempt=row.attempt,
        before=None if change.old is None else change.old.state,
        after=None if change.new is None else change.new.state,
        worker=row.worker,
        reason=row.reason,
        error_type=None if failure is None else failure.kind,
        error_code=None if failure is None else failure.code,
        created_at=row.created_at or None,
        due=row.due,
        not_before=row.not_before,
        leased_at=row.leased_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        backfill=row.backfill,
        replay_of=row.replay_of,
        skipped=row.skipped,
        parent=row.parent,
        child_no=row.child_no,
        has_result=True if row.result is not None or row.result_ref is not None else None,
    )


def _kind(old: RunRow | None, new: RunRow | None) -> TransitionKind | None:
    if new is None:
        return None if old is None else TransitionKind.REMOVED
    if old is None:
        return _created(new)
    return _within(old, new) if old.state is new.state else _moved(old, new)


def _created(new: RunRow) -> TransitionKind:
    if new.state is RunState.SKIPPED:  # a skipped fire, or several missed ones
        return TransitionKind.SKIPPED
    if new.state not in (RunState.QUEUED, RunState.PARKED) or new.fence:
        return TransitionKind.REBUILT
    return TransitionKind.CLAIMED if new.ref.is_fire else TransitionKind.SUBMITTED


def _moved(old: RunRow, new: RunRow) -> TransitionKind:
    match new.state:
        case RunState.QUEUED if old.state is RunState.PARKED:
            return TransitionKind.WOKEN
        case RunState.QUEUED:
            return TransitionKind.TAKEN_OVER if new.backfill is None else TransitionKind.REVIVED
        case RunState.RUNNING:
            return TransitionKind.LEASED
        case RunState.CONTINUED if old.state is RunState.PARKED:
            return TransitionKind.WOKEN
        case RunState.RETRYING:
            return TransitionKind.RELEASED if new.attempt < old.attempt else TransitionKind.RETRIED
        case _:
            return TransitionKind(new.state.lower())


def _within(old: RunRow, new: RunRow) -> TransitionKind | None:
    """A transition that leaves the state."""
    if new.is_terminal:
        return _after_end(old, new)
    if new.state is RunState.RUNNING:
        if new.fence > old.fence:
            return TransitionKind.LEASED
        return TransitionKind.CANCEL_REQUESTED if new.cancel_requested and not old.cancel_requested else None
    if new.state is not RunState.QUEUED and new.revision == old.revision:
        is_hastened = new.state is not RunState.PARKED and new.not_before != old.not_before
        return TransitionKind.HASTENED if is_hastened else None  # a heartbeat of a wait is none
    if (new.revision, new.backfill) != (old.revision, old.backfill):
        return TransitionKind.RESCHEDULED if new.ref.is_one_off else TransitionKind.TAKEN_OVER
    return TransitionKind.QUEUED if new.reason != old.reason else None


def _after_end(old: RunRow, new: RunRow) -> TransitionKind | None:
    if new.buried_at is not None and old.buried_at is None:
        return TransitionKind.BURIED
    counts = (new.skipped, new.skipped_until) != (old.skipped, old.skipped_until)
    return TransitionKind.RECOUNTED if counts else None
