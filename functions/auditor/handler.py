"""The auditor, once an hour: close days of the audit log, compact the archive and the history, check the invariants on live data."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from quarterjack.daemon.auditor_hour import audit_hour
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.services import system_clock
from quarterjack.settings import from_environment

from functions.observe import emit, logger, metrics, services

_MARGIN = 2 * MINUTE  # of the function's time: a step that has begun reads a shard of the agenda
_PART = 3 * MINUTE  # of the function's time, for each part before the audit


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:  # noqa: ARG001 (Lambda passes it)
    """Audit and repair within the function's time, write the counts."""
    report = audit_hour(
        services(),
        clock=system_clock,
        history=from_environment().history,
        emit=emit,
        part=_PART,
        rest=lambda: max(context.get_remaining_time_in_millis() - _MARGIN, SECOND),
        removes=True,
    )
    return dict(vars(report))
