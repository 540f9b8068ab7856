"""Withdrawn: the owner has closed the revision, deleted the schedule or stopped the backfill, before the run ever started."""

from __future__ import annotations

import logging

from minutehand.domain.formats.message import Message
from minutehand.domain.run import RunState
from minutehand.domain.schedule import ClosedBy, Revision, ScheduleState
from minutehand.domain.times import SECOND
from minutehand.errors import Unavailable
from minutehand.owner.backfill.stop import refuse_stopped
from minutehand.state.decisions import Refusal, refused_by
from minutehand.state.transitions import refuse, take_back
from minutehand.worker.context import WorkerContext
from minutehand.worker.delivery.outcome import Outcome
from minutehand.worker.stages import ReceivedMessage

log = logging.getLogger(__name__)

_LATER = 10 * SECOND  # before a message comes back whose revision could not be read
_AHEAD = 10  # later revisions that are read at once


def withdrawn(worker: WorkerContext, received: ReceivedMessage, message: Message) -> Outcome | None:
    """Refuse a run that its owner took back before it ever started. Raises Unavailable."""
    if message.revision == 0:
        return None
    if not message.run.is_fire:
        refusal = _deleted(worker, message)
        return None if refusal is None else _refuse(worker, message, refusal)
    revision = received.revision
    if revision is None:
        if (message.run.owner, message.revision) not in received.revisions.unanswered:
            log.error("revision.missing", extra={"run_id": str(message.run), "revision": message.revision})
        return Outcome.kept(message, "revision_unread", at=worker.clock() + _LATER)
    refusal = refused_by(revision, message.due) or _refused_later(worker, revision, message.due)
    if refusal is not None:
        return _refuse(worker, message, refusal)
    return None if message.backfill is None else _stopped(worker, message)


def _stopped(worker: WorkerContext, message: Message) -> Outcome | None:
    found = refuse_stopped(message, worker.services, worker.clock)
    return None if found is None else Outcome.refused(message, found.reason, found.state)


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


def _refused_later(worker: WorkerContext, revision: Revision, due: int) -> Refusal | None:
    """Whether a stop after its revision was replaced took the run back: a late ticker may have claimed it only now."""
    number = revision.number
    while revision.active_until is not None:
        keys = [(revision.owner, number + ahead) for ahead in range(1, _AHEAD + 1)]
        answer = worker.services.schedules.revisions(keys)
        for key in keys:
            if key in answer.unanswered or key in answer.broken:
                raise Unavailable(f"revision {key[1]} of {key[0]!r} could not be read")
            later = answer.found.get(key)
            refusal = None if later is None else refused_by(later, due)
            if later is None or later.active_until is None or refusal is not None:
                return refusal
        number += _AHEAD
    return None


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
