"""Admit: what stands between a message and its lease. Known job, not taken back by its owner, and its time has come."""

from __future__ import annotations

import logging
from dataclasses import replace

from minutehand.domain.formats.message import Message
from minutehand.domain.policies import Policies
from minutehand.domain.run import Failure, RunState
from minutehand.domain.schedule import ClosedBy, Revision, ScheduleState
from minutehand.domain.times import MINUTE, SECOND
from minutehand.errors import Unavailable
from minutehand.flow.desk import Desk
from minutehand.flow.heartbeat import Ticket
from minutehand.flow.outcome import Outcome
from minutehand.flow.report import report
from minutehand.owner.backfill.stop import refuse_stopped
from minutehand.ports.schedules import RevisionBatch
from minutehand.state.deadline import is_past_deadline
from minutehand.state.start import HEAD_START, HOLD
from minutehand.state.transitions.before_start import give_up, refuse, take_back
from minutehand.state.transitions.ending import expire
from minutehand.state.transitions.lease import SKEW
from minutehand.state.withdrawal import Refusal, refused_by

log = logging.getLogger(__name__)

PATIENCE = 15 * MINUTE  # how long a run waits for a worker that knows its job
UNKNOWN_DELAY = 30 * SECOND  # before it is offered again
_LATER = 10 * SECOND  # before a message comes back whose revision could not be read
_AHEAD = 10  # later revisions that are read at once


def unknown_job(desk: Desk, ticket: Ticket, message: Message, body: str) -> Outcome:
    """No job of that name here: another worker may know it, or a deployment be under way. Spends no attempt."""
    now = desk.clock()
    since = message.unknown_since or now
    if now - since < PATIENCE:
        log.warning("job.unknown", extra={"job": message.job, "run_id": str(message.run)})
        if desk.postpone(ticket, replace(message, unknown_since=since), now + UNKNOWN_DELAY):
            return Outcome(gone=True, action="postponed", why="unknown_job", message=message)
        return desk.kept(ticket, "unknown_job", message, after=UNKNOWN_DELAY)
    return _dead_unknown(desk, ticket, message, body, now)


def _dead_unknown(desk: Desk, ticket: Ticket, message: Message, body: str, now: int) -> Outcome:
    """For PATIENCE nobody knew it: dead, with that reason."""
    run = desk.services.ledger.read(message.run)
    if run is None or run.is_terminal or run.revision != message.revision:
        desk.delete(ticket)
        return Outcome(gone=True, action="refused", why="ended", message=message)
    lease_until = run.lease_until or 0
    if run.state is RunState.RUNNING and lease_until >= now - SKEW:  # somebody knows it, and is at it
        return desk.kept(ticket, "unknown_job", message, after=lease_until + SKEW + SECOND - now)
    reason = "unknown job"
    failure = Failure(kind="UnknownJob", message=f"no worker knew job {message.job!r} for {PATIENCE // MINUTE} minutes")
    desk.bury(body, run.fence, reason, failure)
    moved = desk.services.ledger.move(
        message.run,
        give_up(revision=message.revision, now=now, expires=desk.expires(now), reason=reason, failure=failure),
    )
    desk.delete(ticket)
    state = moved.run.state if moved.applied and moved.run else None
    return Outcome(gone=True, action="settled", why=reason, state=state, message=message)


def taken_back(desk: Desk, ticket: Ticket, message: Message, revisions: RevisionBatch) -> Outcome | None:
    """Whether its schedule's owner took the run back before it ever started; None: go on."""
    if message.revision == 0:
        return None
    if not message.run.is_fire:
        return _deleted(desk, ticket, message)
    key = (message.run.owner, message.revision)
    revision = revisions.found.get(key)
    if revision is None:
        if key not in revisions.unanswered:
            log.error("revision.missing", extra={"run_id": str(message.run), "revision": message.revision})
        return desk.kept(ticket, "revision_unread", message, after=_LATER)
    refusal = refused_by(revision, message.due) or _refused_later(desk, revision, message.due)
    if refusal is None and message.backfill is not None:
        return _stopped(desk, ticket, message)
    return None if refusal is None else _refuse(desk, ticket, message, refusal)


def _stopped(desk: Desk, ticket: Ticket, message: Message) -> Outcome | None:
    stopped = refuse_stopped(message, desk.services, desk.clock)
    if stopped is None:
        return None
    desk.delete(ticket)
    return Outcome(gone=True, action="refused", why=stopped.reason, state=stopped.state, message=message)


def _deleted(desk: Desk, ticket: Ticket, message: Message) -> Outcome | None:
    """A run that was triggered by hand is its owner's act: only a full stop takes it back, and that sweeps.

    What a sweep may have missed, because the trigger was on its way, came after a pause, but must not come after a deletion.
    """
    owner, schedules = message.run.owner, desk.services.schedules
    head = schedules.head(message.run.tenant, owner.partition("/")[2])
    if head is not None and head.state is not ScheduleState.DELETED:
        return None
    last = None if head is None else schedules.revisions([(owner, head.revision)]).found.get((owner, head.revision))
    if last is not None and last.closed_by is ClosedBy.DRAINED:
        return None
    return _refuse(desk, ticket, message, Refusal(RunState.CANCELLED, str(ClosedBy.DELETED)))


def _refused_later(desk: Desk, revision: Revision, due: int) -> Refusal | None:
    """Whether a stop after its revision was replaced took the run back: a late ticker may have claimed it only now."""
    number = revision.number
    while revision.active_until is not None:
        keys = [(revision.owner, number + ahead) for ahead in range(1, _AHEAD + 1)]
        answer = desk.services.schedules.revisions(keys)
        for key in keys:
            if key in answer.unanswered or key in answer.broken:
                raise Unavailable(f"revision {key[1]} of {key[0]!r} could not be read")
            later = answer.found.get(key)
            refusal = None if later is None else refused_by(later, due)
            if later is None or later.active_until is None or refusal is not None:
                return refusal
        number += _AHEAD
    return None


def _refuse(desk: Desk, ticket: Ticket, message: Message, refusal: Refusal) -> Outcome | None:
    now = desk.clock()
    moved = desk.services.ledger.move(
        message.run,
        refuse(to=refusal.to, revision=message.revision, now=now, expires=desk.expires(now), reason=refusal.reason),
    )
    if not moved.applied and refusal.beyond and refusal.to is RunState.CANCELLED:
        moved = desk.services.ledger.move(
            message.run,
            take_back(
                revision=message.revision,
                instant=message.due,
                now=now,
                expires=desk.expires(now),
                reason=refusal.reason,
            ),
        )
    if not moved.applied:  # leased before, ended, or taken over: the lease decides
        return None
    desk.delete(ticket)
    return Outcome(gone=True, action="refused", why=refusal.reason, state=refusal.to, message=message)


def expired(desk: Desk, ticket: Ticket, message: Message, policies: Policies) -> Outcome | None:
    """A run whose deadline has passed does not start any more. None: it has not, or the run is in other hands."""
    now = desk.clock()
    if not is_past_deadline(message.due, policies, now):
        return None
    moved = desk.services.ledger.move(
        message.run, expire(revision=message.revision, now=now, expires=desk.expires(now))
    )
    if not moved.applied or moved.run is None:  # running, ended or taken over: the lease decides
        return None
    report(moved.run, desk.services)
    desk.delete(ticket)
    return Outcome(gone=True, action="refused", why="deadline", state=RunState.EXPIRED, message=message)


def hold(desk: Desk, ticket: Ticket, message: Message, *, ahead: bool) -> Outcome | None:
    """Wait until the run may be leased if that is near; a message that comes much too early goes back. None: its time has come."""
    if message.not_before - desk.clock() > HOLD[message.start]:
        return postponed(desk, ticket, message, message.not_before, "not_due")
    desk.wait_until(message.not_before - (HEAD_START if ahead else 0))
    return None


def postponed(desk: Desk, ticket: Ticket, message: Message, until: int, why: str) -> Outcome:
    """Send the message back for a later time (UTC ms)."""
    if desk.postpone(ticket, replace(message, not_before=until), until):
        return Outcome(gone=True, action="postponed", why=why, message=message)
    return desk.kept(ticket, why, message, after=_LATER)
