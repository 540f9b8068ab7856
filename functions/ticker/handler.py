"""The ticker: one tick a minute. A tick over many entries passes groups of shards to further invocations."""

from __future__ import annotations

from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from quarterjack.domain.times import SECOND
from quarterjack.services import hand_over_to, system_clock
from quarterjack.settings import from_environment, trace_header
from quarterjack.signals.reports import of_gauges, of_tick
from quarterjack.ticker.fan_out import FanOutConfig, group_of, writes_of
from quarterjack.ticker.gauges import measure
from quarterjack.ticker.tick import TickReport, tick
from quarterjack.values import replace

from functions.observe import emit, logger, metrics, request_stats, services

_MARGIN = 15 * SECOND  # of the function's time kept for a clean end: a page that is throttled repeatedly takes 10 s


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:
    """Run a whole tick, or the group of shards that the event names, within the function's time."""
    group, spread = group_of(event), _spread(context.invoked_function_arn)
    report = tick(
        services(),
        clock=system_clock,
        holder=context.aws_request_id,
        budget=max(context.get_remaining_time_in_millis() - _MARGIN, SECOND),
        trace=trace_header(),
        spread=spread if group is None else replace(spread, only=group, hand_over=None, writes=writes_of(event)),
    )
    return _report(report, whole=group is None)


@cache
def _spread(function: str) -> FanOutConfig:
    settings = from_environment()
    to_itself = hand_over_to(function, settings)
    return FanOutConfig(
        threads=settings.ticker_threads,
        groups=settings.ticker_groups,
        hand_over=to_itself,
        writes=settings.ticker_writes,
        stats=request_stats,
    )


def _report(report: TickReport, *, whole: bool) -> dict[str, int]:
    done = report.handled
    emit(of_tick(report, whole=whole))
    if whole and report.is_measured:
        emit(of_gauges(measure(services(), system_clock())))
    logger.info(
        "tick.done",
        whole=whole,
        groups=report.groups,
        throttled=report.throttled,
        claimed=done.fires.claimed,
        sent=done.messages.sent,
        behind_ms=report.behind,
        left=done.agenda.left,
    )
    return {"claimed": done.fires.claimed, "sent": done.messages.sent, "left": done.agenda.left}
