"""What becomes of a run after its tables were restored to an earlier time: decided from its row and from the archive. Pure.

    archive, row:       none                     waits or runs                          has ended
    it ended            put, ended               ends as the archive says               stays
    it began, no end    a fire: held             held                                   stays
                        else: LOST
    it was claimed      as above                 held, if its time is over              stays
    nothing             (no run)                 held, if its time is over; else kept   stays

A fire that was claimed ahead of its time, and has no row, is left to its schedule.

A held run waits until UNTIL_DECIDED for its owner: ``hasten`` (``retry_run``) starts it, ``cancel`` (``cancel_run``) ends it. So does a
parked run whose wait is over, and a fire without a row whose time is over, unless the archive knows its end.

Each row that a restore decides on, and that has not ended, gets a fence of the restore's epoch: every lease, message and verdict of an
earlier one is outdated.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from quarterjack.domain.history.transition_line import TransitionKind, TransitionLine
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import EPOCH, RESULT_LOST, TERMINAL, UNTIL_DECIDED, RunRow, RunState
from quarterjack.domain.times import HOUR
from quarterjack.state.transition import (
    Change,
    Condition,
    Transition,
    all_of,
    ending,
    in_state,
    same_fence,
    same_revision,
)
from quarterjack.values import value

_SINCE = 1_767_225_600_000  # UTC ms: the epochs' hours count from 2026


class UnknownEnd(StrEnum):
    """Why a run is held; its reason has these words."""

    BEGAN = "restored: it began, and its end is not known"
    NO_TRACE = "restored: nothing tells whether it ran"
    WAIT_OVER = "restored: what it waited for has happened, and nothing tells whether it went on"
    REMOVED = "restored: it was removed since"


class Fate(StrEnum):
    """What becomes of a run."""

    STAYS = "stays"  # nothing is written
    KEPT = "kept"  # it waits for a later time
    ENDS = "ends"  # as the archive says
    HELD = "held"  # its owner decides
    LOST = "lost"  # nobody can start it any more: its payload is in no table


@value(kw_only=True)
class FateOfRun:
    """The fate of one run."""

    fate: Fate
    why: str = ""


_STAYS = FateOfRun(fate=Fate.STAYS)
NO_PAYLOAD = FateOfRun(fate=Fate.LOST, why="restored: its payload is in no table")
NO_DEFINITION = FateOfRun(fate=Fate.LOST, why="restored: its definition is in no table")


def next_epoch(present: int, now: int) -> int:
    """The epoch of a restore that begins now (UTC ms): later than the ``present`` one, and than one that the tables have forgotten."""
    return max(present + 1, (now - _SINCE) // HOUR)


def lifted(fence: int, epoch: int) -> int:
    """A fence as it is in an epoch."""
    return epoch * EPOCH + fence % EPOCH


def latest(one: TransitionLine | None, other: TransitionLine) -> TransitionLine:
    """The later of two transitions of one run."""
    return other if one is None or one.order <= other.order else one


def decide(  # noqa: PLR0911 (a table of cases)
    row: RunRow | None,
    line: TransitionLine | None,
    *,
    epoch: int,
    until: int,
    goes_on: Callable[[RunRow], bool] = lambda _: False,
) -> FateOfRun:
    """``line``: the run's last transition in the archive up to ``until`` (UTC ms), when the restore began. One of both is given.

    ``goes_on``: whether a run that is parked beyond ``until`` would go on at once, because what it waits for has happened.
    """
    untold = row is not None and line is not None and line.kind is TransitionKind.BURIED and row.buried_at is None
    if row is not None and (row.fence // EPOCH == epoch or (row.is_terminal and not row.unstarted and not untold)):
        return _STAYS
    if line is not None and line.after is None:  # removed since
        return _STAYS if row is None else FateOfRun(fate=Fate.HELD, why=UnknownEnd.REMOVED)
    if line is not None and line.after in TERMINAL:
        same = row is not None and row.state is line.after and not untold
        return _STAYS if same else FateOfRun(fate=Fate.ENDS, why=f"{line.after} at the archive's word")
    if row is None:
        assert line is not None
        return _without_row(line, until)
    if row.is_terminal:  # refused before its start; a backfill, or its schedule, may claim it
        return _STAYS if line is None or not line.fence else FateOfRun(fate=Fate.HELD, why=UnknownEnd.BEGAN)
    if row.state is RunState.RUNNING or (line is not None and line.fence > row.fence):
        return FateOfRun(fate=Fate.HELD, why=UnknownEnd.BEGAN)
    if _is_due(row, line, until):
        return FateOfRun(fate=Fate.HELD, why=UnknownEnd.NO_TRACE)
    if row.state is RunState.PARKED and goes_on(row):
        return FateOfRun(fate=Fate.HELD, why=UnknownEnd.WAIT_OVER)
    return FateOfRun(fate=Fate.KEPT)


def _without_row(line: TransitionLine, until: int) -> FateOfRun:
    if not line.ref.is_fire or line.backfill is not None:
        return NO_PAYLOAD
    if not line.fence and (line.not_before or 0) > until:  # claimed ahead: its schedule's new revision claims it again
        return _STAYS
    return FateOfRun(fate=Fate.HELD, why=UnknownEnd.BEGAN if line.fence else UnknownEnd.NO_TRACE)


def _is_due(row: RunRow, line: TransitionLine | None, until: int) -> bool:
    """Whether a run that waits could have started by ``until``. Its owner, or what it waits for, may have changed its time since.

    The heartbeat of a wait moves its end and is not archived.
    """
    parked = row.state is RunState.PARKED
    moved = line is not None and not (parked and line.after is RunState.PARKED) and (line.not_before or 0) <= until
    return moved or row.not_before <= until or (parked and row.wake_at is not None and row.wake_at <= until)


def hold(run: RunRow, *, epoch: int, why: str, seen: int = 0, payload: str | None = None) -> Transition:
    """A run as it was read waits for its owner's decision; all attempts are left to it.

    ``seen``: its fence in the archive. ``payload``: JSON text in place of its own.
    """
    fence = lifted(max(run.fence, seen), epoch)
    changes: dict[str, Change] = {
        "state": RunState.RETRYING,
        "not_before": UNTIL_DECIDED,
        "fence": fence,
        "attempt": 0,
        "reason": why,
        "unstarted": None,
        "lease_until": None,
        "lease_token": None,
        "ended_at": None,
        "ttl": None,
    }
    if payload is not None:
        changes["payload"] = payload
    return _restored("hold", RunState.RETRYING, run, fence, changes)


def keep(run: RunRow, *, epoch: int) -> Transition:
    """A run as it was read waits for its own time; what was sent for it before is outdated."""
    fence = lifted(run.fence, epoch)
    return _restored("keep", run.state, run, fence, {"fence": fence})


def end_as(run: RunRow, line: TransitionLine, *, retention: int) -> Transition:
    """A run as it was read ends as the archive says. Its fence is that of its end, so that its letter, if one is under way, is recorded."""
    assert line.after is not None
    fence, ended = max(run.fence, line.fence), line.ended_at or line.at
    more: dict[str, Change] = {"fence": fence, "attempt": line.attempt, "unstarted": None, "worker": line.worker}
    more |= {"started_at": line.started_at, "leased_at": line.leased_at, "error_type": line.error_type}
    more |= {"result_ref": RESULT_LOST if line.has_result else None, "buried_at": _buried_at(line)}
    return ending(
        "end_restored",
        line.after,
        _as_read(run),
        now=ended,
        expires=max(ended, run.due) + retention,
        reason=_reason(line),
        more=more,
        already=all_of(in_state(line.after), same_fence(fence)),
    )


def lose(run: RunRow, *, epoch: int, now: int, retention: int, why: str) -> Transition:
    """A run as it was read can never start again."""
    fence = lifted(run.fence, epoch)
    return ending(
        "lose_restored",
        RunState.LOST,
        _as_read(run),
        now=now,
        expires=max(now, run.due) + retention,
        reason=why,
        more={"fence": fence, "buried_at": now},
        already=all_of(in_state(RunState.LOST), same_fence(fence)),
    )


def _buried_at(line: TransitionLine) -> int | None:
    return line.at if line.kind is TransitionKind.BURIED else None


def _reason(line: TransitionLine) -> str | None:
    return line.reason or ("restored: its result is in no table" if line.has_result else None)


def _restored(name: str, to: RunState, run: RunRow, fence: int, changes: dict[str, Change]) -> Transition:
    return Transition(
        name=name, to=to, guard=_as_read(run), changes=changes, already=all_of(in_state(to), same_fence(fence))
    )


def _as_read(run: RunRow) -> Condition:
    return all_of(in_state(run.state), same_revision(run.revision), same_fence(run.fence))


def row_of(line: TransitionLine, decision: FateOfRun, *, epoch: int, until: int, last: int | None = None) -> RunRow:
    """The row of a run that only the archive knows. ``last``: UTC ms of the last of the missed fires that it stands for."""
    due = line.due or line.created_at or line.at
    fence = line.fence if decision.fate is Fate.ENDS else lifted(line.fence, epoch)
    common: dict[str, Any] = {
        "ref": line.ref,
        "revision": line.revision,
        "job": line.job,
        "due": due,
        "created_at": line.created_at or line.at,
        "fence": fence,
        "started_at": line.started_at,
        "leased_at": line.leased_at,
        "worker": line.worker,
        "backfill": line.backfill,
        "replay_of": line.replay_of,
        "parent": line.parent,
        "child_no": line.child_no,
    }
    match decision.fate:
        case Fate.HELD:
            return RunRow(state=RunState.RETRYING, not_before=UNTIL_DECIDED, reason=decision.why, **common)
        case Fate.LOST:
            common |= {"ended_at": until, "buried_at": until}
            return RunRow(state=RunState.LOST, not_before=due, reason=decision.why, **common)
    assert line.after is not None
    return RunRow(
        state=line.after,
        not_before=line.not_before or due,
        attempt=line.attempt,
        reason=_reason(line),
        result_ref=RESULT_LOST if line.has_result else None,
        ended_at=line.ended_at or line.at,
        buried_at=_buried_at(line),
        skipped=line.skipped if last is not None else None,
        skipped_until=last,
        **common,
    )


def held_fire(ref: RunRef, *, revision: int, job: str, due: int, epoch: int, now: int) -> RunRow:
    """The row of a fire of which nothing tells whether it ran."""
    return RunRow(
        ref=ref,
        state=RunState.RETRYING,
        revision=revision,
        job=job,
        due=due,
        not_before=UNTIL_DECIDED,
        created_at=now,
        fence=epoch * EPOCH,
        reason=UnknownEnd.NO_TRACE,
    )
