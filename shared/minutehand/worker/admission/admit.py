"""Admit: ask every reason not to start a run now, in this order. What nothing keeps back goes on to its lease.

A reason is a function of a run that gives the outcome of its message, or None: it does not hold. It may write the run's row; what
happens with the message is for ``acknowledge``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from minutehand.domain.formats.dead_letter import DeadLetter
from minutehand.domain.formats.message import Message
from minutehand.domain.times import SECOND
from minutehand.errors import TooNew
from minutehand.state.backfill import unhurried
from minutehand.state.lease_refusal import deaths
from minutehand.worker.admission.due import expired, not_due
from minutehand.worker.admission.freeze import frozen
from minutehand.worker.admission.overlap import acquire_slot
from minutehand.worker.admission.shadow import shadowed
from minutehand.worker.admission.unknown_job import unknown_job
from minutehand.worker.admission.withdrawn import withdrawn
from minutehand.worker.context import WorkerContext
from minutehand.worker.delivery.outcome import Outcome
from minutehand.worker.stages import ReadyRun, ReceivedMessage

log = logging.getLogger(__name__)

Reason = Callable[[WorkerContext, ReadyRun], Outcome | None]
REASONS: tuple[Reason, ...] = (not_due, expired, frozen, shadowed, acquire_slot)
_LATER = 60 * SECOND  # before a message comes back that this release cannot read
_QUARANTINE_TAKEN = 10 * SECOND  # before a message comes back whose run found another suspect in the quarantine


def admit(worker: WorkerContext, received: ReceivedMessage) -> ReadyRun | Outcome:
    """The run of a message, ready for its lease; or why it does not start now. Raises Unavailable."""
    message = received.message
    if message is None:
        return _unreadable(worker, received)
    outcome = _quarantined(worker, received, message) or withdrawn(worker, received, message)
    if outcome is not None:
        return outcome
    ready = _ready(worker, received, message)
    if ready is None:
        return unknown_job(worker, received, message)
    for reason in REASONS:
        outcome = reason(worker, ready)
        if outcome is not None:
            return outcome
    if message.payload_ref is None:
        return ready
    return replace(ready, payload=worker.services.payloads.get(message.payload_ref))


def _quarantined(worker: WorkerContext, received: ReceivedMessage, message: Message) -> Outcome | None:
    """Enter the crash quarantine if the run's worker crashed; a message that came for the first time needs no look. Raises Unavailable."""
    if received.delivery.receives <= 1:
        return None
    crashes = deaths(worker.services.ledger.read(message.run), worker.clock())
    stay = worker.quarantine.enter(crashes)
    if stay is None:
        return Outcome.kept(message, "other_suspect_runs", at=worker.clock() + _QUARANTINE_TAKEN)
    received.in_flight.stay = stay
    return None


def _ready(worker: WorkerContext, received: ReceivedMessage, message: Message) -> ReadyRun | None:
    """The run with its job; None if this worker does not know it."""
    job = worker.jobs.get(message.job)
    if job is None:
        return None
    policies = job.policies.overridden(message.overrides)
    if message.backfill is not None:
        policies = unhurried(policies)
    return ReadyRun(received=received, message=message, job=job, policies=policies, payload=message.payload)


def _unreadable(worker: WorkerContext, received: ReceivedMessage) -> Outcome:
    """Not one of our messages: to the dead-letter queue with the reason. One of a later release waits for its worker."""
    if isinstance(received.problem, TooNew):
        log.warning("message.too_new", extra={"error": str(received.problem)})
        return Outcome.kept(None, "too_new", at=worker.clock() + _LATER)
    reason = f"unreadable: {received.problem}"
    log.error("message.unreadable", extra={"error": reason, "message_id": received.delivery.id})
    worker.services.dead.send(DeadLetter(body=received.delivery.body, reason=reason[:500]))
    return Outcome.unreadable()
