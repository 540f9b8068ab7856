"""The context that a job is given, and the log lines of the beginning and end of an attempt."""

from __future__ import annotations

import logging
from datetime import datetime
from functools import lru_cache

from minutehand.domain.formats.message import Message
from minutehand.domain.job import Context, RunLogger
from minutehand.domain.run import RunRow
from minutehand.domain.times import from_ms
from minutehand.timing import zone
from minutehand.worker.context import WorkerContext
from minutehand.worker.delivery.outcome import Outcome
from minutehand.worker.execution.effects import Effects
from minutehand.worker.stages import AttemptResult, Failed, LeasedRun

log = logging.getLogger(__name__)


@lru_cache(maxsize=256)
def _logger(job: str) -> logging.Logger:
    return logging.getLogger(f"minutehand.job.{job}")


def job_context(worker: WorkerContext, leased: LeasedRun) -> Context:
    """What the job is given."""
    message, run = leased.message, leased.run
    run_id, tenant = str(run.ref), run.ref.tenant
    ids = {"run_id": run_id, "job": message.job, "tenant": tenant}
    return Context(
        run_id=run_id,
        idempotency_key=run_id,
        tenant=tenant,
        job=leased.job.name,
        schedule=None if run.ref.is_one_off else run.ref.owner.partition("/")[2],
        scheduled_at=_scheduled_at(message, run),
        attempt=run.attempt,
        logger=RunLogger(_logger(leased.job.name), ids),
        remaining=worker.remaining,
        effects=Effects(worker, leased),
        missed=message.missed,
        backfill=message.backfill,
    )


def _scheduled_at(message: Message, run: RunRow) -> datetime:
    """A replay is about the instant that the run which it repeats was about."""
    if run.scheduled_at is not None:
        return from_ms(run.scheduled_at, zone(run.timezone or message.timezone))
    return from_ms(message.due, zone(message.timezone))


def log_start(leased: LeasedRun) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    run = leased.run
    log.info(
        "run.started",
        extra={
            "run_id": str(run.ref),
            "job": leased.message.job,
            "tenant": run.ref.tenant,
            "attempt": run.attempt,
            "fence": run.fence,
            "slice": run.slices,
            "lateness_ms": _started(leased) - leased.message.not_before,
        },
    )


def _started(leased: LeasedRun) -> int:
    """UTC ms at which this attempt began."""
    run = leased.run
    return (run.started_at if leased.ahead else run.leased_at) or 0


def log_end(leased: LeasedRun, outcome: Outcome, result: AttemptResult) -> None:
    if not log.isEnabledFor(logging.INFO) and not isinstance(result, Failed):
        return
    extra = {
        "run_id": str(leased.run.ref),
        "job": leased.message.job,
        "tenant": leased.run.ref.tenant,
        "attempt": leased.run.attempt,
        "state": str(outcome.state),
        "reason": outcome.why or outcome.action,
    }
    if isinstance(result, Failed):
        failure = result.failure
        log.warning("run.ended", extra=extra | {"error_type": failure.kind, "error": failure.message[:500]})
    else:
        log.info("run.ended", extra=extra)
