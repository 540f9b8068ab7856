"""The undertaker: records the messages of the dead-letter queue."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext
from minutehand.domain.run import RunState
from minutehand.ports.work_queue import RawMessage
from minutehand.services import system_clock
from minutehand.undertaker.bury import Burial, bury_one

from functions.observe import by_dimensions, count, has_metrics, logger, metrics, services

_processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Record a batch; a message that cannot be recorded stays in the queue."""
    return process_partial_response(event, _bury, _processor, context)


def _bury(record: SQSRecord) -> None:
    letter = RawMessage(body=record.body, receipt=record.receipt_handle, receives=1, id=record.message_id)
    _report(bury_one(letter, services(), system_clock))


def _report(burial: Burial) -> None:
    count(Incidents=burial.began, PausedOnFailure=burial.paused)
    name = _name(burial)
    if name is not None:
        count(**{name: 1})
        if burial.run is not None and has_metrics(burial.run.job):
            by_dimensions({"job": burial.run.job}, {name: 1})


def _name(burial: Burial) -> str | None:
    """The metric to count, or None. LOST runs are counted by the worker or ticker that found them."""
    recorded = {RunState.DEAD: "Dead", RunState.EXPIRED: "Expired"}
    if burial.action == "recorded":
        return recorded.get(burial.state)
    return {"returned": "Returned", "unreadable": "Unreadable", "rejected": "Rejected"}.get(burial.action)
