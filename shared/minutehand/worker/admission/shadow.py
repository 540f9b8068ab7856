"""Shadow: a schedule that only tries its clock. Where a worker would take the lease, the run ends instead, and no job starts.

One conditional write, so a duplicate finds it ended; a run that its owner took back meanwhile is refused as a lease would be.
"""

from __future__ import annotations

import logging

from minutehand.domain.run import RunState
from minutehand.state.transitions.before_start import shadow
from minutehand.worker.admission.refused import RETRY_AFTER, refused
from minutehand.worker.context import WorkerContext
from minutehand.worker.delivery.outcome import Outcome
from minutehand.worker.stages import ReadyRun

log = logging.getLogger(__name__)


def shadowed(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """End the run of a schedule with ``shadow=True`` as SHADOWED."""
    message, revision, now = ready.message, ready.received.revision, worker.clock()
    if revision is None or not revision.definition.options.shadow:
        return None
    transition = shadow(revision=message.revision, now=now, expires=worker.expires(max(now, message.due)))
    moved = worker.services.ledger.move(message.run, transition)
    if not moved.applied:
        outcome = refused(worker, ready, moved.run, now)
        return outcome or Outcome.kept(message, "contended", at=worker.clock() + RETRY_AFTER)
    lag = now - message.due
    ids = {"run_id": str(message.run), "job": message.job, "tenant": message.run.tenant}
    log.info("run.shadowed", extra=ids | {"lateness_ms": lag})
    return Outcome.ended(message, "shadow", RunState.SHADOWED, start_lag=lag)
