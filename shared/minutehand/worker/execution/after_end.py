"""The hooks that follow the end of a message, in one list.

The run is settled and its message acknowledged before the hooks are called, and no hook may undo that. A hook that fails is logged; the
ticker or the auditor repairs its omission.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from minutehand.domain.run import RunState
from minutehand.owner.backfill.control import move_on
from minutehand.undertaker.success_watch import report_success
from minutehand.worker.admission.overlap import release_slot
from minutehand.worker.context import WorkerContext
from minutehand.worker.stages import ENDED, Outcome, ReceivedMessage

log = logging.getLogger(__name__)


def _advance_backfill(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    move_on(outcome.message, outcome.state, received.revision, worker.services, worker.clock)


def _report_success(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    """A run that has ended before may have succeeded at a worker that could not report it; the ticker reads its row."""
    if outcome.message is not None and (outcome.state is RunState.SUCCEEDED or outcome.why == ENDED):
        report_success(outcome.message, received.revision, worker.services, worker.clock)


Hook = Callable[[WorkerContext, ReceivedMessage, Outcome], None]
HOOKS: tuple[Hook, ...] = (release_slot, _advance_backfill, _report_success)


def after_end(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    """Call every hook. Raises nothing."""
    for hook in HOOKS:
        try:
            hook(worker, received, outcome)
        except Exception:
            log.exception("work.hook_failed", extra={"run_id": str(received.in_flight.ref), "hook": hook.__name__})
