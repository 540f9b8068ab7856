"""The auditor: checks the invariants on live data, once an hour."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from minutehand.auditor.audit import audit
from minutehand.domain.times import MINUTE, SECOND
from minutehand.services import system_clock

from functions.observe import count, logger, metrics, services

_MARGIN = (
    2 * MINUTE
)  # of the function's time: a step that has begun reads a shard of the agenda, or a part of the ledger


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:  # noqa: ARG001 (Lambda passes it)
    """Audit and repair within the function's time, write the counts."""
    budget = max(context.get_remaining_time_in_millis() - _MARGIN, SECOND)
    report = audit(services(), clock=system_clock, budget=budget, tidy_bucket=True)
    count(Audits=1, Rearmed=report.rearmed, Unclaimed=report.unclaimed, AuditResent=report.resent)
    count(
        QuarantinedEntries=report.quarantined,
        AuditFailed=report.failed,
        Overdue=report.overdue,
        PayloadsRemoved=report.removed,
        AuditStopped=report.stopped,
    )
    return dict(vars(report))
