"""The ticker: one tick a minute."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from minutehand.flow.tick import TickReport, tick
from minutehand.model.moment import SECOND
from minutehand.services import system_clock
from minutehand.settings import trace_header

from functions.observe import count, count_named, logger, metrics, milliseconds, services, tracer

_MARGIN = 5 * SECOND  # of the function's time that is kept for ending cleanly


@logger.inject_lambda_context
@tracer.capture_lambda_handler(capture_response=False)
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:  # noqa: ARG001 (the event says nothing)
    """Tick within the function's time."""
    budget = max(context.get_remaining_time_in_millis() - _MARGIN, SECOND)
    report = tick(services(), clock=system_clock, holder=context.aws_request_id, budget=budget, trace=trace_header())
    return _report(report)


def _report(report: TickReport) -> dict[str, int]:
    done = report.handled
    milliseconds("BehindBy", report.behind)
    milliseconds("SchedulingLag", done.lag)
    count(Ticks=1, Claimed=done.claimed, Sent=done.sent, Resent=done.resent, TakenOver=done.taken_over)
    count(Quarantined=done.quarantined, EntriesLeft=done.left, EntriesFailed=done.failed, Lost=done.lost)
    count(Notices=done.told, Incidents=done.incidents, Recovered=done.recovered)
    count(ShardsUnavailable=report.unavailable, ShardsLocked=report.locked, OutOfTime=report.stopped)
    for miss in done.misses:
        count_named({"tenant": miss.tenant, "schedule": miss.schedule}, Missed=miss.late, Skipped=miss.skipped)
    logger.info("tick.done", claimed=done.claimed, sent=done.sent, behind_ms=report.behind, left=done.left)
    return {"claimed": done.claimed, "sent": done.sent, "left": done.left}
