"""The undertaker records dead runs. A letter is deleted only after its run was recorded, or when it is no longer needed.

    bury_one:  decode the letter ─► read the run ─► record (row: DEAD, buried ─► entry of the index, effect on the schedule)
                                                └► return to work ─► or drop           then the caller deletes the letter

The row is written first, because it decides: of several letters about one run one verdict holds, and the key of the index entry follows
from the row. LOST and EXPIRED runs are recorded in the same way; a worker or ticker has written their row already.

| the undertaker dies | then |
|---|---|
| before the row is written | the letter comes back, and nothing was recorded |
| before the entry is put | the letter comes back; the row is found buried, and the same entry is put |
| before the letter is deleted | the letter comes back, and is dropped: recorded already |
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from quarterjack.domain.message import (
    GARBAGE,
    REJECTED,
    UNREADABLE,
    DeadLetter,
    Message,
    decode,
    decode_letter,
    named_run,
)
from quarterjack.domain.names import RunRef
from quarterjack.domain.redaction import USUAL
from quarterjack.domain.run import Failure, RunRow, RunState
from quarterjack.domain.tenants.caller import role
from quarterjack.errors import TooNew, Unavailable, Unreadable
from quarterjack.fires.claim import message_of, send
from quarterjack.fires.context import FireContext
from quarterjack.fires.parking import tell_end
from quarterjack.ports.queues import OutgoingMessage, RawMessage
from quarterjack.ports.services import Clock, Services
from quarterjack.state.ending import bury, inter
from quarterjack.state.lease import has_live_lease
from quarterjack.state.refusal import is_same_claim
from quarterjack.undertaker.incidents import record_dead_run
from quarterjack.values import replace

log = logging.getLogger(__name__)

RETURNS = 3  # times that a message which SQS moved here is sent back to work while no worker has its run
_RETURN_DELAY = 60  # seconds
_UNREAD = "its message cannot be read"  # how the reason of a run begins that died of that
_REASON = 400  # characters of the reader's error that a dead run keeps
_SHOWN = 2_000  # characters of an unreadable letter that are logged


@dataclass(frozen=True, kw_only=True)
class Burial:
    """The result of one letter."""

    action: str  # "recorded", "returned", "dropped", "unreadable", "rejected"
    run: RunRow | None = None  # as it was; None if there is none, or its message could not be decoded
    reason: str = ""
    state: RunState = RunState.DEAD  # recorded: the state in which the run ended
    began: bool = False  # an incident of its schedule began
    paused: bool = False  # the schedule was paused because of it


def bury_one(delivery: RawMessage, services: Services, clock: Clock) -> Burial:
    """Record the run of one letter. The caller deletes the letter afterwards.

    Raises Unavailable, and TooNew for a letter or a run of a later release, which is logged: then the letter stays in the queue.
    """
    context = FireContext(services=services, clock=clock, caller=role("undertaker"))
    try:
        return _bury(delivery, services, context)
    except TooNew as problem:
        log.warning("letter.too_new", extra={"message_id": delivery.id, "error": str(problem)})
        raise


def _bury(delivery: RawMessage, services: Services, context: FireContext) -> Burial:
    letter = decode_letter(delivery.body)
    body = delivery.body if letter is None else letter.body
    try:
        message = decode(body)
    except TooNew:
        raise
    except Unreadable as problem:
        named = named_run(body)
        if named is None or letter is None or letter.state in (UNREADABLE, REJECTED):
            return _bury_unreadable(named, body, problem, context)
        return _record(named, letter, context)  # the worker that sent it, of another release, could read it
    run = services.ledger.read(message.run)
    if run is None or (letter is not None and letter.state == REJECTED):
        return _bury_rejected(message.run, body, "unknown_run" if letter is None else letter.reason)
    if letter is None:
        burial = _return(message, run, "received too often by SQS", context)
    elif letter.state == UNREADABLE:  # by the worker's release, and not by ours
        burial = _return(message, run, letter.reason, context)
    else:
        burial = _record(message.run, letter, context, message.revision)
    return replace(burial, run=run)


def _bury_unreadable(named: RunRef | None, body: str, problem: Unreadable, context: FireContext) -> Burial:
    """A message that cannot be decoded. If its text still names a run that waits, that run is sent anew, from its row.

    Anyone with the right to send to the queue can write such a text, so it neither starts nor ends the run. An operator
    sees it in the log. A run is dead for it only if the message that its row gives cannot be decoded either.
    """
    why, unreadable = str(problem), Burial(action="unreadable", reason=str(problem))
    about = {} if named is None else {"run_id": str(named)}
    log.error("letter.unreadable", extra=about | {"error": why, "body": USUAL.text(body)[:_SHOWN]})
    run = None if named is None else context.services.ledger.read(named)
    if run is None or has_live_lease(run, context.clock()):  # its worker has its own message
        return unreadable
    if run.buried_at is not None and (run.reason or "").startswith(_UNREAD):
        return _index(run, context, recorded=False)
    if run.is_terminal:
        return unreadable
    own = _own_message(run, context.services)
    if isinstance(own, str):
        reason = f"{_UNREAD} ({why[:_REASON]}), and {own[:_REASON]}"
        return _record(run.ref, DeadLetter(body="", reason=reason, fence=run.fence), context)
    if not send([own], context.services.work, context.clock)[0]:
        raise Unavailable("the work queue did not take a run's message in place of an unreadable one; the letter stays")
    log.warning("letter.replaced", extra={"run_id": str(run.ref)})
    return unreadable


def _own_message(run: RunRow, services: Services, trace: str | None = None) -> Message | str:
    """The message of a run as its row gives it, if workers can decode it; else why not. Raises Unavailable, TooNew."""
    try:
        own = message_of(run, services, trace)
        if own is None:
            return "its revision is missing"
        decode(own.encode())
    except TooNew:
        raise
    except GARBAGE as problem:  # Unreadable is a ValueError
        return f"its row gives none that can: {problem}"
    return own


def _bury_rejected(ref: RunRef, body: str, reason: str) -> Burial:
    """No accepted run has this message, or it is not the run's own: nothing is recorded. An operator sees it in the log."""
    log.error("letter.rejected", extra={"run_id": str(ref), "reason": reason, "body": body[:_SHOWN]})
    return Burial(action="rejected", reason=reason)


def _record(ref: RunRef, letter: DeadLetter, context: FireContext, revision: int | None = None) -> Burial:
    """``revision``: of the message that failed, if it is known."""
    services, now = context.services, context.clock()
    if letter.state in (RunState.LOST, RunState.EXPIRED):
        burial = inter(state=RunState(letter.state), fence=letter.fence, now=now)
    else:
        failure = Failure(kind=letter.error_type, message=letter.error) if letter.error_type else None
        expires = now + services.retention
        burial = bury(
            fence=letter.fence, revision=revision, now=now, expires=expires, reason=letter.reason, failure=failure
        )
    moved = services.ledger.move(ref, burial)
    if moved.run is None or moved.run.fence != letter.fence or moved.run.buried_at is None:
        return _dropped(ref, "no longer needed")  # a later attempt was leased, or the owner cancelled the run
    return _index(moved.run, context, recorded=moved.applied)


def _index(run: RunRow, context: FireContext, *, recorded: bool) -> Burial:
    """Put the index entry of a buried run; ``recorded``: this call has buried it."""
    tell_end(run, context.services, context.clock)
    recording = record_dead_run(run, context)
    if not (recording.put or recorded):
        return _dropped(run.ref, "recorded already")
    failure, reason = run.failure or Failure(kind="", message=""), run.reason or ""
    extra = {"run_id": str(run.ref), "job": run.job, "tenant": run.ref.tenant, "reason": run.reason}
    log.error("run.dead", extra=extra | {"error_type": failure.kind, "error": failure.message, "state": str(run.state)})
    return Burial(action="recorded", reason=reason, state=run.state, began=recording.began, paused=recording.paused)


def _return(message: Message, run: RunRow, why: str, context: FireContext) -> Burial:
    """No worker had it, but nothing is wrong with it: return it to work while the run has a live lease or attempts left.

    A run that takes days comes here again and again: SQS hides a message for twelve hours at most, then each receipt finds the lease
    live and counts. So a live lease returns it however often that was; only returns that found no live lease are counted.
    """
    if run.buried_at is not None:
        return _index(run, context, recorded=False)
    if run.is_terminal:
        return _dropped(run.ref, "ended")
    if not is_same_claim(run, message.revision, message.backfill, message.fence):
        return _dropped(run.ref, "no longer needed")
    is_live, attempts_left = has_live_lease(run, context.clock()), run.attempt < (run.max_attempts or 1)
    if is_live or (attempts_left and message.returned < RETURNS):
        own = _own_message(run, context.services, message.trace)
        if isinstance(own, str):
            return _record(message.run, DeadLetter(body="", reason=own, fence=run.fence), context, run.revision)
        again = replace(own, returned=message.returned + (not is_live), later=message.later)
        if not context.services.work.send([OutgoingMessage(again, _RETURN_DELAY)])[0]:
            raise Unavailable("the work queue did not take a returned message; it stays in the dead-letter queue")
        log.warning("letter.returned", extra={"run_id": str(message.run), "returned": again.returned})
        return Burial(action="returned")
    reason = f"{why} and returned {message.returned} times"
    return _record(message.run, DeadLetter(body="", reason=reason, fence=run.fence), context, message.revision)


def _dropped(ref: RunRef, why: str) -> Burial:
    log.info("letter.dropped", extra={"run_id": str(ref), "reason": why})
    return Burial(action="dropped", reason=why)
