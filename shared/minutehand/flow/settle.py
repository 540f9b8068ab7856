"""Settle: make the outcome of an attempt durable under the fence; only then does the message go."""

from __future__ import annotations

import logging
from dataclasses import replace

from minutehand.domain.formats.message import INLINE_PAYLOAD
from minutehand.domain.run import FailedAttemptRow, Failure, RunState
from minutehand.domain.times import SECOND
from minutehand.errors import MinutehandError, Unavailable
from minutehand.flow.assignment import Abandoned, Assignment, Cancelled, Ended, Failed, NotBegun, Returned, SliceEnded
from minutehand.flow.attempts import record
from minutehand.flow.desk import Desk
from minutehand.flow.heartbeat import Ticket
from minutehand.flow.outcome import Outcome
from minutehand.ports.ledger import BesideKind, TransitionResult
from minutehand.state.retry import GiveUp, after_failure
from minutehand.state.transitions.settling import cancelled, continue_, die, release, retry, succeed
from minutehand.state.transitions.transition import Transition

log = logging.getLogger(__name__)

SMALL_RESULT = 400  # bytes of a result in the run's own row; more lies beside it
_PATIENCE = (
    1,
    2,
    4,
    8,
    15,
)  # seconds between tries to record an outcome: half a lease, then the run is given to another


def settle(assignment: Assignment, ended: Ended) -> Outcome:
    """Record how an attempt ended and let the message go."""
    if assignment.ticket.lost or isinstance(ended, Abandoned):
        return lost(assignment)
    match ended:
        case Returned():
            return _succeed(assignment, ended)
        case Failed(failure):
            return _fail(assignment, failure)
        case SliceEnded():
            return _continue(assignment)
        case Cancelled(reason, failure):
            return _cancel(assignment, reason, failure)
        case NotBegun():
            return _give_back(assignment)


def plain_success(assignment: Assignment, ended: Ended) -> Transition | None:
    """The transition of an end that one write records, so that it can be settled with others; None: it takes more."""
    if not isinstance(ended, Returned) or assignment.ticket.lost or assignment.run.payload_beside:
        return None
    if ended.result is not None and len(ended.result) > SMALL_RESULT:
        return None
    now = assignment.desk.clock()
    expires = assignment.desk.expires(now)
    to = succeed(fence=assignment.fence, now=now, expires=expires, result=ended.result, reason=ended.note)
    return _dated(assignment, to)


def _succeed(assignment: Assignment, ended: Returned) -> Outcome:
    desk = assignment.desk
    now = desk.clock()
    small = ended.result is not None and len(ended.result) <= SMALL_RESULT
    ref, note = None, ended.note
    if ended.result is not None and not small:
        try:
            ref = _store_result(assignment, ended.result)
        except MinutehandError as problem:  # no bucket, or none that answers: the job's work is done all the same
            note = f"result not kept: {problem}"[:200]
    transition = succeed(
        fence=assignment.fence,
        now=now,
        expires=desk.expires(now),
        result=ended.result if small else None,
        result_ref=ref,
        reason=note,
    )
    return _finish(assignment, transition, note or "")


def _store_result(assignment: Assignment, text: str) -> str:
    """Beside the row, or in the bucket; where it lies. The row names it only once it is settled."""
    desk, run = assignment.desk, assignment.run
    if len(text) > INLINE_PAYLOAD:
        return desk.services.payloads.keep(run.ref.tenant, text)
    desk.services.ledger.keep(
        run.ref,
        fence=run.fence,
        kind=BesideKind.RESULT,
        name="last",
        text=text,
        expires=desk.expires(desk.clock()),
    )
    return "beside"


def _fail(assignment: Assignment, failure: Failure) -> Outcome:
    desk, run = assignment.desk, assignment.run
    now = desk.clock()
    what = after_failure(
        failure,
        attempt=run.attempt,
        due=run.due,
        policies=assignment.policies,
        now=now,
        chance=desk.random.random(),
    )
    if isinstance(what, GiveUp):
        return _die(assignment, failure, what.reason, now)
    return _retry(assignment, failure, now, what.at)


def _die(assignment: Assignment, failure: Failure, reason: str, now: int) -> Outcome:
    """The verdict goes to the dead-letter queue first: dying in between, the undertaker records it."""
    desk = assignment.desk
    desk.bury(assignment.body, assignment.fence, reason, failure)
    transition = die(fence=assignment.fence, now=now, expires=desk.expires(now), reason=reason, failure=failure)
    outcome = _finish(assignment, transition, failure.kind)
    if outcome.state is RunState.DEAD:
        _record(assignment, failure, now, None)
    return outcome


def _cancel(assignment: Assignment, reason: str, failure: Failure | None) -> Outcome:
    desk = assignment.desk
    now = desk.clock()
    transition = cancelled(fence=assignment.fence, now=now, expires=desk.expires(now), reason=reason, failure=failure)
    return _finish(assignment, transition, "cancelled")


def _retry(assignment: Assignment, failure: Failure, now: int, again: int) -> Outcome:
    transition = retry(fence=assignment.fence, not_before=again, failure=failure)
    outcome = _order_anew(assignment, transition, again, failure.kind)
    if outcome.state is RunState.RETRYING:
        _record(assignment, failure, now, again)
    return outcome


def _continue(assignment: Assignment) -> Outcome:
    now = assignment.desk.clock()
    return _order_anew(assignment, continue_(fence=assignment.fence, now=now), now, "slice ended")


def _order_anew(assignment: Assignment, transition: Transition, at: int, why: str) -> Outcome:
    """The new state first, then the new order, then the old message goes: dying in between leaves one that finds its way."""
    desk, ticket = assignment.desk, assignment.ticket
    moved = _move(assignment, transition)
    if moved is None:
        return desk.kept(ticket, "unavailable", assignment.message, after=10 * SECOND)
    ticket.fence = None
    if not moved.applied:
        return lost(assignment)
    order = replace(assignment.message, not_before=at, fence=assignment.fence, unknown_since=None)
    try:
        gone = desk.postpone(ticket, order, at)
    except Unavailable:
        gone = False
    if not gone:
        desk.hide(ticket, min(at, desk.clock() + 600 * SECOND))
    return outcome_of(assignment, transition.to, why, gone=gone)


def _give_back(assignment: Assignment) -> Outcome:
    """Its job has not begun. Whoever receives the message next sees what its owner has done meanwhile."""
    desk, ticket = assignment.desk, assignment.ticket
    moved = _move(assignment, release(fence=assignment.fence, now=desk.clock(), begun=False))
    if moved is None:
        return desk.kept(ticket, "unavailable", assignment.message, after=10 * SECOND)
    ticket.fence = None
    if not moved.applied:
        return lost(assignment)
    log.warning("run.released", extra={"run_id": str(assignment.run.ref), "tenant": assignment.run.ref.tenant})
    return desk.kept(ticket, "too_late_for_its_instant", assignment.message, after=0)


def _finish(assignment: Assignment, transition: Transition, why: str) -> Outcome:
    desk, ticket = assignment.desk, assignment.ticket
    moved = _move(assignment, transition)
    if moved is None:
        return desk.kept(ticket, "unavailable", assignment.message, after=10 * SECOND)
    ticket.fence = None
    if not moved.applied:
        return lost(assignment)
    desk.delete(ticket)
    return outcome_of(assignment, transition.to, why, gone=True)


def _dated(assignment: Assignment, transition: Transition) -> Transition:
    """With when the job began, where its lease said only when it should."""
    if not assignment.ahead:
        return transition
    return replace(transition, changes={**transition.changes, "started_at": assignment.run.started_at})


def _move(assignment: Assignment, transition: Transition) -> TransitionResult | None:
    """Apply a transition, patiently: the job's effect has happened. None if the ledger did not answer."""
    desk, ref = assignment.desk, assignment.run.ref
    for seconds in (*_PATIENCE, None):
        try:
            return desk.services.ledger.move(ref, _dated(assignment, transition))
        except Unavailable as problem:
            extra = {"run_id": str(ref), "transition": transition.name, "error": str(problem)}
            log.warning("settle.unavailable", extra=extra)
            if seconds is not None:
                desk.wait(seconds)
    return None


def _record(assignment: Assignment, failure: Failure, now: int, again: int | None) -> None:
    """The failed attempt's own row. The run's row has the failure in short already, so losing this one loses detail only."""
    run, desk = assignment.run, assignment.desk
    attempt = FailedAttemptRow(
        run=run.ref,
        number=run.attempt,
        fence=run.fence,
        worker=desk.name,
        started_at=run.leased_at or now,
        ended_at=now,
        failure=failure,
        next_attempt_at=again,
    )
    record(attempt, desk.services.ledger)


def release_ticket(desk: Desk, ticket: Ticket) -> bool:
    """Give a run back that this process will not finish; another worker starts it at once. False if it cannot be.

    An at-most-once run is never given back: its watch finds it, and it is LOST.
    """
    if ticket.gone:
        return False
    fence = ticket.fence
    if fence is None:
        ticket.lose()
        desk.hide(ticket, desk.clock())
        return True
    moved = desk.services.ledger.move(ticket.ref, release(fence=fence, now=desk.clock(), begun=not ticket.held))
    ticket.lose()
    if moved.applied:
        desk.hide(ticket, desk.clock())
    return moved.applied


def lost(assignment: Assignment) -> Outcome:
    """Another worker may have the run: write nothing, delete nothing, and say so."""
    assignment.desk.heartbeat.let_go(assignment.ticket)
    log.error("lease.lost", extra={"run_id": str(assignment.run.ref), "job": assignment.job.name})
    return Outcome(gone=False, action="lost", why="lease_lost", message=assignment.message)


def outcome_of(assignment: Assignment, state: RunState | None, why: str, *, gone: bool) -> Outcome:
    """What became of the message of a run that was executed."""
    run = assignment.run
    first = run.attempt == 1 and run.slices == 0 and run.backfill is None  # what is filled in is late on purpose
    return Outcome(
        gone=gone,
        action="settled",
        why=why,
        state=state,
        message=assignment.message,
        start_lag=run.lateness if first else None,
        attempt=run.attempt,
    )
