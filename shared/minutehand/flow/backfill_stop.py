"""Stop a backfill: take back what it has waiting, here and, of what is still on its way, at the workers.

Its state is written first. A lane notes its fire before it claims the run, and a lane moves only when that run has ended: so every
run that was claimed before is found at its lane and taken back, and the message of every run that is claimed after was sent after,
so that its worker reads the new state. When the owner's call returns, nothing of the backfill starts any more. Another backfill may have
revived a run by then, and is not stopped: so whoever takes a run back names the lane whose it must be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from minutehand.domain.formats.message import Message
from minutehand.domain.names import RunRef
from minutehand.domain.run import WAITING, RunState
from minutehand.errors import Unavailable
from minutehand.flow.backfill_records import lanes_of, read_backfill
from minutehand.flow.desk import Desk
from minutehand.flow.heartbeat import Ticket
from minutehand.flow.outcome import Outcome
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.backfill import Backfill, BackfillState, fire_of, parse_tag, tag_of
from minutehand.state.conditions import Compare, all_of
from minutehand.state.transitions import Transition, cancel, refuse

_ROUNDS = 5  # times that a run may move between being seen and being taken back
REASONS = {BackfillState.PAUSED: "backfill paused", BackfillState.CANCELLED: "backfill cancelled"}


def take_back(backfill: Backfill, services: Services, clock: Clock) -> None:
    """Take back the runs that a stopped backfill has waiting; those that run go on. Raises Unavailable: call again to finish."""
    for lane in lanes_of(backfill, services):
        if lane.is_open:
            _take_back(fire_of(backfill, lane), tag_of(backfill.id, lane.number), backfill.state, services, clock)


def _take_back(ref: RunRef, tag: str, state: BackfillState, services: Services, clock: Clock) -> None:
    for _ in range(_ROUNDS):
        try:
            run = services.ledger.read(ref)
        except (ValueError, KeyError, TypeError):  # a row that this release cannot read is none that it claimed
            return
        if run is None or run.backfill != tag or run.state not in WAITING:
            return
        now = clock()
        moves = _moves(tag, state, run.revision, now, now + services.retention)
        if any(services.ledger.move(ref, move).applied for move in moves):
            return
        if run.state is not RunState.QUEUED and state is BackfillState.PAUSED:
            return  # it had started: it goes on to its end
    raise Unavailable(f"run {ref} changed {_ROUNDS} times meanwhile; call again to finish")


def stopped(desk: Desk, ticket: Ticket, message: Message) -> Outcome | None:
    """Whether the backfill that a message is of was stopped; None: go on, or the run has started."""
    tag = message.backfill or ""
    backfill, _ = parse_tag(tag)
    kept = read_backfill(message.run.owner, backfill, desk.services)
    if kept is None or kept.backfill.state not in REASONS:
        return None
    now, state = desk.clock(), kept.backfill.state
    for move in _moves(tag, state, message.revision, now, desk.expires(now)):
        moved = desk.services.ledger.move(message.run, move)
        if moved.applied:
            desk.delete(ticket)
            why = REASONS[state]
            return Outcome(gone=True, action="refused", why=why, state=RunState.CANCELLED, message=message)
        if moved.run is not None and moved.run.backfill != tag:  # its own order has its payload, and is on its way
            desk.delete(ticket)
            return Outcome(gone=True, action="refused", why="another's by now", message=message)
    return None


def _moves(tag: str, state: BackfillState, revision: int, now: int, expires: int) -> Iterator[Transition]:
    """What takes a lane's waiting run back. Another backfill may have one that never started; one between two attempts is over."""
    yield _of_lane(
        tag, refuse(to=RunState.CANCELLED, revision=revision, now=now, expires=expires, reason=REASONS[state])
    )
    if state is BackfillState.CANCELLED:
        yield _of_lane(tag, cancel(now=now, expires=expires))


def _of_lane(tag: str, move: Transition) -> Transition:
    return replace(move, guard=all_of(Compare("backfill", "=", tag), move.guard))
