"""The undertaker records dead runs. A letter is deleted only after its run was recorded or the letter is known to be moot.

    run's row: DEAD, buried ──► line in the index, with its effect on the schedule ──► letter is deleted

The row comes first, because it decides: of several letters about one run one verdict holds, and the line's key follows from the row.
An undertaker that dies before the line is put leaves the letter; the next one finds the row buried and puts the same line. LOST and
EXPIRED runs are recorded in the same way; the worker or ticker that found them has written the row already.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from minutehand.domain.message import DeadLetter, Message, decode, decode_letter, named_run
from minutehand.domain.names import RunRef
from minutehand.domain.run import Failure, RunRow, RunState
from minutehand.errors import TooNew, Unavailable, Unreadable
from minutehand.ports.services import Clock, Services
from minutehand.ports.work_queue import OutgoingMessage, RawMessage
from minutehand.state.ending import bury, inter
from minutehand.state.lease import has_live_lease
from minutehand.state.transition import Transition
from minutehand.undertaker.incidents import record_dead_run

log = logging.getLogger(__name__)

RETURNS = 3  # times that a message which SQS moved here is sent back to work
_RETURN_DELAY = 60  # seconds
_REASON = 400  # characters of the reader's error that a dead run keeps
_SHOWN = 2_000  # characters of an unreadable letter that are logged


@dataclass(frozen=True, kw_only=True)
class Burial:
    """The result of one letter."""

    action: str  # "recorded", "returned", "dropped", "unreadable"
    message: Message | None = None  # None if it could not be decoded
    reason: str = ""
    state: RunState = RunState.DEAD  # recorded: the state in which the run ended
    began: bool = False  # an incident of its schedule began
    paused: bool = False  # the schedule was paused because of it


def bury_one(delivery: RawMessage, services: Services, clock: Clock) -> Burial:
    """Record the run of one letter. The caller deletes the letter afterwards.

    Raises Unavailable, and TooNew for a letter of a later release: then the letter stays in the queue.
    """
    letter = decode_letter(delivery.body)
    body = delivery.body if letter is None else letter.body
    try:
        message = decode(body)
    except TooNew:
        raise
    except Unreadable as problem:
        return _bury_unreadable(body, problem, services, clock)
    run = services.ledger.read(message.run)
    if run is None:
        return _dropped(message.run, message, "unknown run")
    if letter is not None:
        return _record(message.run, message, letter, services, clock)
    return _moved_by_sqs(message, run, services, clock)


def _bury_unreadable(body: str, problem: Unreadable, services: Services, clock: Clock) -> Burial:
    """A message that cannot be decoded never starts its run. If its text still names the run, the run is dead for that reason."""
    log.error("letter.unreadable", extra={"error": str(problem), "body": body[:_SHOWN]})
    named = named_run(body)
    if named is None or services.ledger.read(named.run) is None:
        return Burial(action="unreadable", reason=str(problem))
    reason = f"its message cannot be read: {str(problem)[:_REASON]}"
    letter = DeadLetter(body=body, reason=reason, fence=named.fence)
    return _record(named.run, None, letter, services, clock)


def _record(ref: RunRef, message: Message | None, letter: DeadLetter, services: Services, clock: Clock) -> Burial:
    moved = services.ledger.move(ref, _burial(letter, services, clock()))
    if moved.run is None or moved.run.fence != letter.fence or moved.run.buried_at is None:
        return _dropped(ref, message, "verdict is moot")  # a later attempt was leased, or the owner cancelled the run
    return _index(message, moved.run, services, clock, recorded=moved.applied)


def _burial(letter: DeadLetter, services: Services, now: int) -> Transition:
    if letter.state in (RunState.LOST, RunState.EXPIRED):
        return inter(state=RunState(letter.state), fence=letter.fence, now=now)
    failure = Failure(kind=letter.error_type, message=letter.error) if letter.error_type else None
    return bury(fence=letter.fence, now=now, expires=now + services.retention, reason=letter.reason, failure=failure)


def _index(message: Message | None, run: RunRow, services: Services, clock: Clock, *, recorded: bool) -> Burial:
    """Put the line of a buried run; ``recorded``: this call has buried it."""
    recording = record_dead_run(run, services, clock)
    if not (recording.put or recorded):
        return _dropped(run.ref, message, "recorded already")
    failure = run.failure or Failure(kind="", message="")
    extra = {"run_id": str(run.ref), "job": run.job, "tenant": run.ref.tenant, "reason": run.reason}
    log.error("run.dead", extra=extra | {"error_type": failure.kind, "error": failure.message, "state": str(run.state)})
    return Burial(
        action="recorded",
        message=message,
        reason=run.reason or "",
        state=run.state,
        began=recording.began,
        paused=recording.paused,
    )


def _moved_by_sqs(message: Message, run: RunRow, services: Services, clock: Clock) -> Burial:
    """SQS moved a message after too many receives: return it to work while the run has a live lease or attempts left."""
    if run.buried_at is not None:
        return _index(message, run, services, clock, recorded=False)
    if run.is_terminal:
        return _dropped(run.ref, message, "ended")
    attempts_left = run.attempt < (run.max_attempts or 1)
    if (has_live_lease(run, clock()) or attempts_left) and message.returned < RETURNS:
        again = replace(message, returned=message.returned + 1)
        if not services.work.send([OutgoingMessage(again, _RETURN_DELAY)])[0]:
            raise Unavailable("the work queue did not take a returned message; it stays in the dead-letter queue")
        log.warning("letter.returned", extra={"run_id": str(message.run), "returned": again.returned})
        return Burial(action="returned", message=message)
    reason = f"received too often by SQS and returned {message.returned} times"
    letter = DeadLetter(body="", reason=reason, fence=run.fence)
    return _record(message.run, message, letter, services, clock)


def _dropped(ref: RunRef, message: Message | None, why: str) -> Burial:
    log.info("letter.dropped", extra={"run_id": str(ref), "reason": why})
    return Burial(action="dropped", message=message, reason=why)
