"""Begin: what a job is given when its run was leased, and what is said of the run then and at its end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache

from minutehand.domain.formats.message import Message
from minutehand.domain.job import Context, RunLogger
from minutehand.domain.run import RunRow
from minutehand.domain.times import from_ms
from minutehand.flow.assignment import Assignment, Ended, Failed
from minutehand.flow.effects import Effects
from minutehand.flow.outcome import Outcome
from minutehand.timing import zone

log = logging.getLogger(__name__)


@lru_cache(maxsize=256)
def _logger(job: str) -> logging.Logger:
    return logging.getLogger(f"minutehand.job.{job}")


def context_of(assignment: Assignment, remaining: Callable[[], float | None]) -> Context:
    """What the job is given."""
    message, run = assignment.message, assignment.run
    run_id, tenant = str(run.ref), run.ref.tenant
    ids = {"run_id": run_id, "job": message.job, "tenant": tenant}
    return Context(
        run_id=run_id,
        idempotency_key=run_id,
        tenant=tenant,
        job=assignment.job.name,
        schedule=None if run.ref.is_one_off else run.ref.owner.partition("/")[2],
        scheduled_at=_scheduled_at(message, run),
        attempt=run.attempt,
        logger=RunLogger(_logger(assignment.job.name), ids),
        remaining=remaining,
        effects=Effects(assignment, remaining),
        missed=message.missed,
        backfill=message.backfill,
    )


def _scheduled_at(message: Message, run: RunRow) -> datetime:
    """A replay is about the instant that the run which it repeats was about."""
    if run.scheduled_at is not None:
        return from_ms(run.scheduled_at, zone(run.timezone or message.timezone))
    return from_ms(message.due, zone(message.timezone))


def log_start(assignment: Assignment) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    run = assignment.run
    log.info(
        "run.started",
        extra={
            "run_id": str(run.ref),
            "job": assignment.message.job,
            "tenant": run.ref.tenant,
            "attempt": run.attempt,
            "fence": run.fence,
            "slice": run.slices,
            "lateness_ms": _started(assignment) - assignment.message.not_before,
        },
    )


def _started(assignment: Assignment) -> int:
    """UTC ms at which this attempt began."""
    run = assignment.run
    return (run.started_at if assignment.ahead else run.leased_at) or 0


def log_end(assignment: Assignment, outcome: Outcome, ended: Ended) -> None:
    if not log.isEnabledFor(logging.INFO) and not isinstance(ended, Failed):
        return
    extra = {
        "run_id": str(assignment.run.ref),
        "job": assignment.message.job,
        "tenant": assignment.run.ref.tenant,
        "attempt": assignment.run.attempt,
        "state": str(outcome.state),
        "reason": outcome.why or outcome.action,
    }
    if isinstance(ended, Failed):
        failure = ended.failure
        log.warning("run.ended", extra=extra | {"error_type": failure.kind, "error": failure.message[:500]})
    else:
        log.info("run.ended", extra=extra)
