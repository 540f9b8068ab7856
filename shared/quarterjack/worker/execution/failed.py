"""What is left of a failed attempt: the dead letter of one that was the last, and the row of each."""

from __future__ import annotations

from quarterjack.domain.run import FailedAttemptRow, Failure
from quarterjack.errors import QuarterjackError
from quarterjack.worker.admission.refused import record
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.stages import LeasedRun


def send_verdict(worker: WorkerContext, leased: LeasedRun, reason: str, failure: Failure | None, at: int) -> None:
    """The verdict first: dying in between, the undertaker records it. If it cannot be sent, the next worker does, with this failure.

    ``at``: UTC ms of the attempt's end.
    """
    try:
        worker.send_dead_letter(leased.received.delivery.body, leased.run.fence, reason, failure)
    except QuarterjackError:
        record_failure(worker, leased, failure, at)
        raise


def record_failure(
    worker: WorkerContext, leased: LeasedRun, failure: Failure | None, at: int, next_at: int | None = None
) -> None:
    """Put the row of an attempt, if it failed and the ledger answers. ``at``, ``next_at``: UTC ms of its end and of the next attempt."""
    if failure is not None:
        attempt = FailedAttemptRow(
            run=leased.run.ref,
            number=leased.run.attempt,
            fence=leased.run.fence,
            worker=worker.name,
            started_at=leased.began_at or at,
            ended_at=at,
            failure=failure,
            next_attempt_at=next_at,
        )
        record(attempt, worker.services.siblings)
