"""After the end of a message: what else follows from what became of its run. The one list of it.

The run is settled and its message acknowledged by then. Nothing here may undo that, so a hook that fails is logged; the ticker or the
auditor comes to what it left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from minutehand.owner.backfill.advance import move_on
from minutehand.undertaker.success_watch import report_success
from minutehand.worker.admission.overlap import release_slot
from minutehand.worker.context import WorkerContext
from minutehand.worker.delivery.outcome import Outcome
from minutehand.worker.stages import ReceivedMessage

log = logging.getLogger(__name__)


def _advance_backfill(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    move_on(outcome, received.revision, worker.services, worker.clock)


def _report_success(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    report_success(outcome, received.revision, worker.services, worker.clock)


Hook = Callable[[WorkerContext, ReceivedMessage, Outcome], None]
HOOKS: tuple[Hook, ...] = (release_slot, _advance_backfill, _report_success)


def after_end(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    """Call every hook. Raises nothing."""
    for hook in HOOKS:
        try:
            hook(worker, received, outcome)
        except Exception:
            log.exception("work.hook_failed", extra={"run_id": str(received.in_flight.ref), "hook": hook.__name__})
