"""The historian: the changes of the table of runs, in batches of its stream."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from quarterjack.domain.times import SECOND
from quarterjack.dynamodb.run_stream import parse_records
from quarterjack.historian.deliver import deliver_patiently
from quarterjack.services import system_clock
from quarterjack.signals.catalogue import counted
from quarterjack.signals.reports import of_history

from functions.observe import emit, logger, metrics, services

_MARGIN = 40 * SECOND  # of the function's time: a delivery that has begun may wait for services of its own


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    """Deliver a batch. If a service does not answer until the function's time ends, it raises, and Lambda sends the batch again."""
    parsed = parse_records(event["Records"])
    emit(counted(HistorianBatches=1))
    try:
        report = deliver_patiently(
            parsed.changes,
            services(),
            system_clock,
            budget=context.get_remaining_time_in_millis() - _MARGIN,
            unreadable=parsed.unreadable,
        )
    except Exception:
        emit(counted(HistorianStopped=1))
        raise
    emit(of_history(report))
    return {"changes": report.changes, "set_aside": report.set_aside}
