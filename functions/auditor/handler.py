"""The auditor: checks the invariants on live data, once an hour."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from minutehand.auditor.audit import audit
from minutehand.services import system_clock

from functions.observe import count, logger, metrics, services


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:  # noqa: ARG001 (Lambda passes both)
    """Audit, repair, write the counts."""
    report = audit(services(), clock=system_clock)
    count(Audits=1, Rearmed=report.rearmed, Unclaimed=report.unclaimed, AuditResent=report.resent)
    count(QuarantinedEntries=report.quarantined, AuditFailed=report.failed, Overdue=report.overdue)
    return dict(vars(report))
