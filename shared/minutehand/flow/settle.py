"""Settle: make the outcome of an attempt durable under the fence; only then does the message go."""

from __future__ import annotations

import logging
from dataclasses import replace

from minutehand.errors import Unavailable
from minutehand.flow.desk import Desk
from minutehand.flow.heartbeat import Ticket
from minutehand.flow.lease import Leased
from minutehand.flow.outcome import Outcome
from minutehand.flow.ports import Moved
from minutehand.model.message import Message
from minutehand.model.moment import SECOND
from minutehand.model.policies import Policies
from minutehand.model.run import Attempt, Failure, RunState
from minutehand.runs.decisions import next_attempt_at
from minutehand.runs.transitions import LEASE, Transition, die, release, retry, succeed

log = logging.getLogger(__name__)

_PATIENCE = (
    1,
    2,
    4,
    8,
    15,
)  # seconds between tries to record an outcome: half a lease, then the run is given to another


def settle(
    desk: Desk, ticket: Ticket, message: Message, body: str, leased: Leased, policies: Policies, failure: Failure | None
) -> Outcome:
    """Record how an attempt ended and let the message go."""
    if ticket.lost:
        return _lost(desk, ticket, message)
    if failure is None:
        now = desk.clock()
        return _finish(
            desk, ticket, message, leased, succeed(fence=leased.fence, now=now, expires=desk.expires(now)), ""
        )
    now = desk.clock()
    again = next_attempt_at(leased.run.attempt, policies, now, desk.random.random())
    if again is None:
        return _die(desk, ticket, message, body, leased, failure, now)
    return _retry(desk, ticket, message, leased, failure, now, again)


def _die(
    desk: Desk, ticket: Ticket, message: Message, body: str, leased: Leased, failure: Failure, now: int
) -> Outcome:
    reason = f"failed {leased.run.attempt} times" if leased.run.attempt > 1 else "failed"
    desk.bury(body, leased.fence, reason, failure)
    transition = die(fence=leased.fence, now=now, expires=desk.expires(now), reason=reason, failure=failure)
    outcome = _finish(desk, ticket, message, leased, transition, failure.kind)
    if outcome.state is RunState.DEAD:
        _record(desk, leased, failure, now, None)
    return outcome


def _retry(
    desk: Desk, ticket: Ticket, message: Message, leased: Leased, failure: Failure, now: int, again: int
) -> Outcome:
    """RETRYING first, then the new order, then the old message goes: dying in between leaves one that finds its way."""
    ticket_fence, ticket.fence = ticket.fence, None
    moved = _move(desk, leased, retry(fence=leased.fence, not_before=again, failure=failure))
    if moved is None:
        ticket.fence = ticket_fence
        return desk.kept(ticket, "unavailable", message, after=10 * SECOND)
    if not moved.applied:
        return _lost(desk, ticket, message)
    _record(desk, leased, failure, now, again)
    order = replace(message, not_before=again, fence=leased.fence, unknown_since=None)
    gone = desk.postpone(ticket, order, again)
    if not gone:
        desk.hide(ticket, min(again, now + 600 * SECOND))
    return _outcome(message, leased, RunState.RETRYING, failure.kind, gone=gone)


def _finish(desk: Desk, ticket: Ticket, message: Message, leased: Leased, transition: Transition, why: str) -> Outcome:
    moved = _move(desk, leased, transition)
    if moved is None:
        return desk.kept(ticket, "unavailable", message, after=10 * SECOND)
    ticket.fence = None
    if not moved.applied:
        return _lost(desk, ticket, message)
    desk.delete(ticket)
    assert transition.to is not None
    return _outcome(message, leased, transition.to, why, gone=True)


def _move(desk: Desk, leased: Leased, transition: Transition) -> Moved | None:
    """Apply a transition, patiently: the job's effect has happened. None if the ledger did not answer."""
    for seconds in (*_PATIENCE, None):
        try:
            return desk.services.ledger.move(leased.run.ref, transition)
        except Unavailable as problem:
            log.warning(
                "settle.unavailable",
                extra={"run_id": str(leased.run.ref), "transition": transition.name, "error": str(problem)},
            )
            if seconds is not None:
                desk.wait(seconds)
    return None


def _record(desk: Desk, leased: Leased, failure: Failure, now: int, again: int | None) -> None:
    """The failed attempt's own row. The run's row has the failure in short already, so losing this one loses detail only."""
    run = leased.run
    attempt = Attempt(
        run=run.ref,
        number=run.attempt,
        fence=run.fence,
        worker=desk.name,
        started_at=(run.lease_until or now) - LEASE,
        ended_at=now,
        failure=failure,
        next_attempt_at=again,
    )
    try:
        desk.services.ledger.record(attempt)
    except Unavailable as problem:
        log.warning("attempt.not_recorded", extra={"run_id": str(run.ref), "error": str(problem)})


def release_ticket(desk: Desk, ticket: Ticket) -> bool:
    """Give a run back that this process will not finish; another worker starts it at once. False if it was not ours."""
    fence = ticket.fence
    if fence is None:
        desk.hide(ticket, desk.clock())
        return True
    moved = desk.services.ledger.move(ticket.ref, release(fence=fence, now=desk.clock()))
    ticket.lost = True
    if moved.applied:
        desk.hide(ticket, desk.clock())
    return moved.applied


def _lost(desk: Desk, ticket: Ticket, message: Message) -> Outcome:
    """Another worker may have the run: write nothing, delete nothing, and say so."""
    desk.heartbeat.let_go(ticket)
    log.error("lease.lost", extra={"run_id": str(message.run), "job": message.job})
    return Outcome(gone=False, action="lost", why="lease_lost", message=message)


def _outcome(message: Message, leased: Leased, state: RunState, why: str, *, gone: bool) -> Outcome:
    first = leased.run.attempt == 1
    return Outcome(
        gone=gone,
        action="settled",
        why=why,
        state=state,
        message=message,
        start_lag=leased.run.lateness if first else None,
        attempt=leased.run.attempt,
    )
