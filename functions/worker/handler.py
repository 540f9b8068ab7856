"""The worker: runs the jobs of a batch of messages, each for itself."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext
from minutehand.errors import Misconfigured
from minutehand.flow.outcome import Outcome
from minutehand.jobs import Registry, load
from minutehand.model.message import Message
from minutehand.model.moment import SECOND
from minutehand.model.policies import Policies
from minutehand.model.run import RunState
from minutehand.settings import from_environment

from functions.observe import around_run, by_dimensions, count, logger, metrics, services, trace_libraries, tracer
from functions.worker.batch import Batch

end_process = os._exit
_processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)


class _Kept(Exception):
    """No error: it tells Powertools that the message is not done with and comes back by itself."""


def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Run a batch; then, if a job's thread had to be abandoned, end the process: Lambda starts another.

    By then every outcome is settled and its message deleted, so the error that Lambda sees repeats nothing.
    """
    recycle = threading.Event()
    response: PartialItemFailureResponse = _run(event, context, recycle=recycle)
    if recycle.is_set():
        end_process(1)
    return response


@logger.inject_lambda_context
@tracer.capture_lambda_handler(capture_response=False)
@metrics.log_metrics
def _run(event: dict[str, Any], context: LambdaContext, *, recycle: threading.Event) -> PartialItemFailureResponse:
    """Messages that stay are reported as failures, the others are deleted already."""
    outcomes: list[Outcome] = []

    def settled(record: SQSRecord) -> None:
        outcome = batch.outcome(record.message_id)
        outcomes.append(outcome)
        if not outcome.gone:
            raise _Kept(outcome.why)

    batch = Batch(
        event["Records"],
        services(),
        _jobs(),
        name=context.aws_request_id,
        around=around_run,
        remaining=lambda: context.get_remaining_time_in_millis() / SECOND,
    )
    with batch:
        response = process_partial_response(event, settled, _processor, context)
    _report(outcomes)
    if batch.must_recycle:
        logger.error("worker.recycling")
        recycle.set()
    return response


@cache
def _jobs() -> Registry:
    package = from_environment().jobs
    if package is None:
        raise Misconfigured("MINUTEHAND_JOBS is not set; set it to the package whose jobs this worker runs")
    registry = load(package)
    trace_libraries()
    return registry


def _report(outcomes: Iterable[Outcome]) -> None:
    """Metrics in all, and by job and delivery."""
    groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.message is None:
            count(Unreadable=1)
            continue
        groups[outcome.message.job, _delivery(outcome.message)].append(outcome)
    for (job, delivery), group in groups.items():
        counts = _counts(group)
        count(**counts)
        lags = {"StartLag": [outcome.start_lag for outcome in group if outcome.start_lag is not None]}
        by_dimensions({"job": job, "delivery": delivery}, counts, lags)


def _delivery(message: Message) -> str:
    job = _jobs().get(message.job)
    policies = Policies() if job is None else job.policies
    return str(policies.overridden(message.overrides).delivery)


def _counts(outcomes: Iterable[Outcome]) -> dict[str, float]:
    counts: dict[str, float] = defaultdict(float)
    names = {
        RunState.SUCCEEDED: "Succeeded",
        RunState.RETRYING: "Retried",
        RunState.CONTINUED: "Continued",
        RunState.CANCELLED: "Cancelled",
        RunState.DEAD: "Failed",
        RunState.LOST: "Lost",
        RunState.SHADOWED: "Shadowed",
    }
    others = {"postponed": "Postponed", "kept": "Kept"}
    for outcome in outcomes:
        if outcome.state in names:
            counts[names[outcome.state]] += 1
        if outcome.action in ("refused", "waiting", "lost"):
            counts["LeaseRefused"] += 1
            counts[f"LeaseRefused.{outcome.why}"] += 1
        if outcome.action in others:
            counts[others[outcome.action]] += 1
    return dict(counts)
