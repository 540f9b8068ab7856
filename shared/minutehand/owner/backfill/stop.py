"""Stop a backfill: take back its waiting runs, here and, for messages that are on their way, at the workers.

The state is written first. A fire enters the window before it is claimed, and leaves it when its run has ended: so every run that was
claimed before is found in the window and taken back, and a run that is claimed later is sent later, so its worker reads the new
state. When the owner's call returns, nothing of the backfill starts any more. Another backfill may have revived a run by then, and is
not stopped: so each transition is conditional on the run's backfill.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from minutehand.domain.message import Message
from minutehand.domain.run import WAITING, RunRow, RunState
from minutehand.errors import Unavailable
from minutehand.owner.backfill.records import read_backfill, read_runs
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.backfill import BackfillState, StoredBackfill
from minutehand.state.before_start import refuse
from minutehand.state.ending import cancel
from minutehand.state.transition import Compare, Transition, all_of

_ROUNDS = 5  # times that a run may move between being seen and being taken back
_REASONS = {BackfillState.PAUSED: "backfill paused", BackfillState.CANCELLED: "backfill cancelled"}


@dataclass(frozen=True)
class StoppedRun:
    """Why the message of a backfill's run is not executed."""

    reason: str
    state: RunState | None = None  # of the run, if this call ended it


def take_back(backfill: StoredBackfill, services: Services, clock: Clock) -> None:
    """Take back the waiting runs of a stopped backfill; running ones go on. Raises Unavailable: call again to finish."""
    waiting = WAITING if backfill.state is BackfillState.CANCELLED else {RunState.QUEUED}
    for _ in range(_ROUNDS):
        runs = read_runs(backfill, backfill.window, services).values()
        found = [run for run in runs if run is not None and run.backfill == backfill.id and run.state in waiting]
        now = clock()
        moves = [(run.ref, _end(run, backfill, now, now + services.retention)) for run in found]
        moved = services.ledger.move_all(moves) if moves else {}
        if all(moved.get(run.ref) for run in found):
            return
    raise Unavailable(f"runs of backfill {backfill.id} changed {_ROUNDS} times meanwhile; call again to finish")


def refuse_stopped(message: Message, services: Services, clock: Clock) -> StoppedRun | None:
    """Take back a message's run if its backfill is stopped. None: its backfill goes on, or the run has started."""
    backfill = read_backfill(message.run.owner, message.backfill or "", services)
    if backfill is None or backfill.state not in _REASONS:
        return None
    now = clock()
    for move in _ends(backfill, message.revision, now, now + services.retention):
        moved = services.ledger.move(message.run, move)
        if moved.applied:
            return StoppedRun(_REASONS[backfill.state], RunState.CANCELLED)
        if moved.run is not None and moved.run.backfill != backfill.id:  # whose own message has its payload
            return StoppedRun("claimed by another backfill")
    return None


def _end(run: RunRow, backfill: StoredBackfill, now: int, expires: int) -> Transition:
    """What ends a run in the state in which it was read."""
    refusal, *cancellation = _ends(backfill, run.revision, now, expires)
    return refusal if run.state is RunState.QUEUED else cancellation[0]


def _ends(backfill: StoredBackfill, revision: int, now: int, expires: int) -> Iterator[Transition]:
    """Refuse a run that never started: another backfill may claim its fire. After a cancellation also end one between two attempts."""
    own, reason = Compare("backfill", "=", backfill.id), _REASONS[backfill.state]
    refusal = refuse(to=RunState.CANCELLED, revision=revision, now=now, expires=expires, reason=reason)
    yield replace(refusal, guard=all_of(own, refusal.guard))
    if backfill.state is BackfillState.CANCELLED:
        ended = cancel(now=now, expires=expires)
        yield replace(ended, guard=all_of(own, ended.guard))
