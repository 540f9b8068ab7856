"""Unknown job: another worker may know it, or a deployment be under way. The run waits, spends no attempt, and is DEAD in the end."""

from __future__ import annotations

import logging
from dataclasses import replace

from minutehand.domain.formats.message import Message
from minutehand.domain.run import Failure, RunState
from minutehand.domain.times import MINUTE, SECOND
from minutehand.state.transitions.before_start import give_up
from minutehand.state.transitions.lease import SKEW
from minutehand.worker.context import WorkerContext
from minutehand.worker.delivery.outcome import ENDED, Outcome
from minutehand.worker.stages import ReceivedMessage

log = logging.getLogger(__name__)

PATIENCE = 15 * MINUTE  # how long a run waits for a worker that knows its job
UNKNOWN_DELAY = 30 * SECOND  # before it is offered again


def unknown_job(worker: WorkerContext, received: ReceivedMessage, message: Message) -> Outcome:
    """No job of that name here."""
    now = worker.clock()
    since, again = message.unknown_since or now, now + UNKNOWN_DELAY
    if now - since < PATIENCE:
        log.warning("job.unknown", extra={"job": message.job, "run_id": str(message.run)})
        order = replace(message, unknown_since=since)
        return Outcome.postponed(message, "unknown_job", order=order, at=again, otherwise=again)
    run = worker.services.ledger.read(message.run)
    if run is None or run.is_terminal or run.revision != message.revision:
        return Outcome.refused(message, ENDED)
    lease_until = run.lease_until or 0
    if run.state is RunState.RUNNING and lease_until >= now - SKEW:  # another worker knows it, and runs it
        return Outcome.kept(message, "unknown_job", at=lease_until + SKEW + SECOND)
    reason = "unknown job"
    failure = Failure(kind="UnknownJob", message=f"no worker knew job {message.job!r} for {PATIENCE // MINUTE} minutes")
    worker.send_dead_letter(received.delivery.body, run.fence, reason, failure)
    expires = worker.expires(now)
    transition = give_up(revision=message.revision, now=now, expires=expires, reason=reason, failure=failure)
    moved = worker.services.ledger.move(message.run, transition)
    return Outcome.ended(message, reason, moved.run.state if moved.applied and moved.run else None)
