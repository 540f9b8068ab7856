"""Events: ends of runs and incidents of schedules, in batches of the stream of the table of runs, to the target of QUARTERJACK_EVENTS."""

from __future__ import annotations

from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from quarterjack.daemon.event_sink import with_events
from quarterjack.dynamodb.run_stream import parse_records
from quarterjack.historian.deliver import StreamReader, deliver
from quarterjack.ports.services import Services
from quarterjack.services import system_clock
from quarterjack.settings import from_environment
from quarterjack.signals.catalogue import counted
from quarterjack.signals.reports import of_events

from functions.observe import emit, logger, metrics, services


@cache
def _publishing() -> Services:
    """The services with the sink that the settings choose."""
    return with_events(services(), from_environment())


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:  # noqa: ARG001 (Lambda passes it)
    """Publish the events of a batch. If the receiver does not answer, it raises, and Lambda sends the batch again, for up to a day."""
    parsed = parse_records(event["Records"])
    emit(counted(EventBatches=1))
    try:
        report = deliver(
            parsed.changes,
            _publishing(),
            system_clock(),
            notices=parsed.notices,
            unreadable=parsed.unreadable,
            reader=StreamReader.EVENTS,
        )
    except Exception:
        emit(counted(EventsStopped=1))
        raise
    emit(of_events(report))
    return {"changes": report.changes, "set_aside": report.set_aside}
