"""Lease: take the exclusive right to execute a run, or say why not. A run has started when its lease is committed."""

from __future__ import annotations

import logging
from dataclasses import replace

from minutehand.domain.agenda_entry import AgendaEntry, EntryKind
from minutehand.domain.formats.message import Message
from minutehand.domain.names import shard_of
from minutehand.domain.policies import Delivery, Policies
from minutehand.domain.run import FailedAttemptRow, RunRow, RunState
from minutehand.domain.times import SECOND
from minutehand.errors import Unavailable
from minutehand.flow.admit import postponed
from minutehand.flow.attempts import record
from minutehand.flow.desk import Desk
from minutehand.flow.heartbeat import Ticket
from minutehand.flow.outcome import Outcome
from minutehand.flow.report import report
from minutehand.state.lease_refusal import OnRefusedLease, on_refused_lease, vanished
from minutehand.state.transitions.ending import cancel_waiting, exhaust, lose
from minutehand.state.transitions.lease import LEASE, SKEW, lease
from minutehand.state.transitions.transition import Transition

log = logging.getLogger(__name__)

_TRIES = 3  # leases tried on a row that others keep moving
AGAIN = 5 * SECOND  # then the message comes back


def take_lease(desk: Desk, ticket: Ticket, message: Message, body: str, policies: Policies) -> RunRow | Outcome:
    """Lease the run of a message, and the run as leased; an Outcome if it cannot be had."""
    token = desk.token()
    at_most_once = policies.delivery is Delivery.AT_MOST_ONCE
    watch = _watch(desk, message, token) if at_most_once else None
    ticket.gone = at_most_once  # before there is a lease to give back
    abandoned: FailedAttemptRow | None = None  # whoever had the run and vanished: it is taken only when that was read
    for _ in range(_TRIES):
        if ticket.lost:  # this process stops and has shown the message to others
            desk.heartbeat.let_go(ticket)
            return Outcome(gone=False, action="released", why="stopping", message=message)
        now = desk.clock()
        steal = abandoned is not None and not at_most_once
        moved = desk.services.ledger.move(message.run, _lease(desk, message, policies, token, now, steal=steal))
        if moved.applied and moved.run is not None:
            ticket.fence = moved.run.fence
            if abandoned is not None and moved.run.fence == abandoned.fence + 1:
                record(abandoned, desk.services.ledger)
            if watch is not None and desk.clock() > watch.due - 2 * SKEW:  # we stalled; the ticker may have dropped it
                _watch(desk, message, token)
            return moved.run
        outcome = after_refusal(desk, ticket, message, body, policies, moved.run, now)
        if outcome is not None:
            return outcome
        abandoned = None if moved.run is None else vanished(moved.run, now)
    return desk.kept(ticket, "contended", message, after=AGAIN)


def _lease(desk: Desk, message: Message, policies: Policies, token: str, now: int, *, steal: bool) -> Transition:
    return lease(
        revision=message.revision,
        now=now,
        token=token,
        worker=desk.name,
        max_attempts=policies.max_attempts,
        steal=steal,
    )


def _watch(desk: Desk, message: Message, token: str) -> AgendaEntry:
    """Leave a watch entry before an at-most-once lease: if this worker vanishes, the run is found and declared LOST."""
    now = desk.clock()
    shard = shard_of(message.run.owner, desk.services.agenda.shards())
    due = now + LEASE + 2 * SKEW
    entry = AgendaEntry(shard=shard, due=due, kind=EntryKind.WATCH, id=f"{message.run}#{token}", created_at=now)
    if entry.key not in desk.services.agenda.put([entry]):
        raise Unavailable("the agenda did not accept the watch of an at-most-once run; it has not started")
    return entry


def after_refusal(
    desk: Desk, ticket: Ticket, message: Message, body: str, policies: Policies, run: RunRow | None, now: int
) -> Outcome | None:
    """Carry out what a refused lease means; None: try again."""
    answer = on_refused_lease(run, revision=message.revision, now=now, policies=policies)
    match answer.action:
        case OnRefusedLease.DROP:
            desk.delete(ticket)
            return Outcome(gone=True, action="refused", why=answer.why, message=message)
        case OnRefusedLease.WAIT:
            desk.hide(ticket, answer.until + SECOND)
            return Outcome(gone=False, action="waiting", why=answer.why, message=message)
        case OnRefusedLease.POSTPONE:
            return postponed(desk, ticket, message, answer.until, answer.why)
        case OnRefusedLease.RETRY:
            return None
        case _:
            assert run is not None
            return _end(desk, ticket, message, body, policies, run, answer.action, answer.why)


def _end(
    desk: Desk,
    ticket: Ticket,
    message: Message,
    body: str,
    policies: Policies,
    run: RunRow,
    action: OnRefusedLease,
    why: str,
) -> Outcome | None:
    """The run can have no further attempt: record its end. None if it moved meanwhile."""
    now = desk.clock()
    expires, last = desk.expires(now), vanished(run, now)
    match action:
        case OnRefusedLease.LOSE:
            transition = lose(now=now, expires=expires, token=run.lease_token or "")
        case OnRefusedLease.CANCEL:
            transition = cancel_waiting(now=now, expires=expires, reason="requested")
        case _:
            reason = "worker vanished in the last attempt"
            failure = run.failure if last is None else last.failure
            desk.bury(body, run.fence, reason, failure)
            transition = exhaust(
                now=now,
                expires=expires,
                max_attempts=policies.max_attempts,
                fence=run.fence,
                reason=reason,
                failure=failure,
            )
    moved = desk.services.ledger.move(run.ref, transition)
    if not moved.applied or moved.run is None:
        return None
    if last is not None:
        record(replace(last, next_attempt_at=None), desk.services.ledger)
    if moved.run.state is RunState.LOST:
        report(moved.run, desk.services)
    desk.delete(ticket)
    log.warning("run.ended", extra={"run_id": str(run.ref), "job": run.job, "state": str(transition.to), "reason": why})
    return Outcome(gone=True, action="settled", why=why, state=transition.to, message=message)
