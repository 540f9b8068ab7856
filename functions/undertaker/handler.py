"""The undertaker: records the messages of the dead-letter queue."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext
from quarterjack.ports.queues import RawMessage
from quarterjack.services import system_clock
from quarterjack.signals.reports import of_burial
from quarterjack.undertaker.bury import bury_one

from functions.observe import emit, logger, metrics, named, services

_processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Record a batch; a message that cannot be recorded stays in the queue."""
    return process_partial_response(event, _bury, _processor, context)


def _bury(record: SQSRecord) -> None:
    letter = RawMessage(body=record.body, receipt=record.receipt_handle, receives=1, id=record.message_id)
    emit(of_burial(bury_one(letter, services(), system_clock), named()))
