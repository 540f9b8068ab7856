"""Withdrawn: the owner has closed the revision, deleted the schedule or stopped the backfill, before the run ever started."""

from __future__ import annotations

import logging

from minutehand.domain.formats.message import Message
from minutehand.domain.run import RunState
from minutehand.domain.schedule import ClosedBy, Revision, ScheduleState
from minutehand.domain.times import SECOND
from minutehand.errors import Unavailable
from minutehand.owner.backfill.stop import refuse_stopped
from minutehand.state.transitions.before_start import refuse, take_back
from minutehand.state.withdrawal import Refusal, refused_by
from minutehand.worker.context import WorkerContext
from minutehand.worker.delivery.outcome import Outcome
from minutehand.worker.stages import ReceivedMessage

log = logging.getLogger(__name__)

_LATER = 10 * SECOND  # before a message comes back whose revision could not be read
_AHEAD = 10  # later revisions that are read at once


def withdrawn(worker: WorkerContext, received: ReceivedMessage, message: Message) -> Outcome | None:
    """Refuse a run that its owner took back before it ever started. Raises Unavailable."""
    revision = received.revision
    if message.revision == 0:
        return None
    if message.run.is_fire and revision is None:
        if (message.run.owner, message.revision) not in received.revisions.unanswered:
            log.error("revision.missing", extra={"run_id": str(message.run), "revision": message.revision})
        return Outcome.kept(message, "revision_unread", at=worker.clock() + _LATER)
    refusal = _refusal(worker, message, revision)
    if refusal is not None:
        return _refuse(worker, message, refusal)
    found = None if message.backfill is None else refuse_stopped(message, worker.services, worker.clock)
    return None if found is None else Outcome.refused(message, found.reason, found.state)


def _refusal(worker: WorkerContext, message: Message, revision: Revision | None) -> Refusal | None:
    if revision is None or not message.run.is_fire:
        return _deleted(worker, message)
    return _refused_by(worker, revision, message.due)


def _deleted(worker: WorkerContext, message: Message) -> Refusal | None:
    """A run that was triggered by hand is its owner's act: only a full stop takes it back, and that sweeps.

    What a sweep may have missed, because the trigger was on its way, came after a pause, but must not come after a deletion.
    """
    owner, schedules = message.run.owner, worker.services.schedules
    head = schedules.head(message.run.tenant, owner.partition("/")[2])
    if head is not None and head.state is not ScheduleState.DELETED:
        return None
    last = None if head is None else schedules.revisions([(owner, head.revision)]).found.get((owner, head.revision))
    if last is not None and last.closed_by is ClosedBy.DRAINED:
        return None
    return Refusal(RunState.CANCELLED, str(ClosedBy.DELETED))


def _refused_by(worker: WorkerContext, revision: Revision, due: int) -> Refusal | None:
    """Whether the end of its revision took the run back, or a stop after that was replaced: a late ticker may have claimed it only now."""
    refusal, number = refused_by(revision, due), revision.number
    last = revision.active_until is None
    while refusal is None and not last:
        keys = [(revision.owner, number + ahead) for ahead in range(1, _AHEAD + 1)]
        answer = worker.services.schedules.revisions(keys)
        for key in keys:
            if key in answer.unanswered or key in answer.broken:
                raise Unavailable(f"revision {key[1]} of {key[0]!r} could not be read")
            later = answer.found.get(key)
            refusal = None if later is None else refused_by(later, due)
            last = later is None or later.active_until is None
            if last or refusal is not None:
                break
        number += _AHEAD
    return refusal


def _refuse(worker: WorkerContext, message: Message, refusal: Refusal) -> Outcome | None:
    """None: it was leased before, has ended, or was taken over. The lease decides."""
    now = worker.clock()
    ledger, expires = worker.services.ledger, worker.expires(now)
    transition = refuse(to=refusal.to, revision=message.revision, now=now, expires=expires, reason=refusal.reason)
    applied = ledger.move(message.run, transition).applied
    if not applied and refusal.beyond and refusal.to is RunState.CANCELLED:
        transition = take_back(
            revision=message.revision, instant=message.due, now=now, expires=expires, reason=refusal.reason
        )
        applied = ledger.move(message.run, transition).applied
    return Outcome.refused(message, refusal.reason, refusal.to) if applied else None
