"""The ticker as a process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from minutehand.daemon.connected import connected
from minutehand.daemon.names import process_name
from minutehand.domain.times import SECOND
from minutehand.errors import Unavailable
from minutehand.ports.services import Services
from minutehand.services import system_clock
from minutehand.settings import Settings
from minutehand.ticker.fan_out import FanOutConfig
from minutehand.ticker.tick import TickReport, tick

log = logging.getLogger(__name__)


def run_ticker(
    where: Settings | Services,
    *,
    stop: threading.Event,
    period: float = 60.0,
    report: Callable[[TickReport], None] | None = None,
) -> None:
    """Tick now and then every ``period`` seconds until ``stop``, with the threads and writes of the settings (services: one, and any)."""
    services, holder = connected(where), process_name("ticker")
    spread = FanOutConfig()
    if isinstance(where, Settings):
        spread = FanOutConfig(threads=where.ticker_threads, writes=where.ticker_writes, wait=stop.wait)
    while not stop.is_set():
        started = system_clock()
        try:
            done = tick(services, clock=system_clock, holder=holder, spread=spread)
        except Unavailable as problem:
            log.warning("tick.unavailable", extra={"error": str(problem)})
        else:
            log_tick(done)
            if report is not None:
                report(done)
        stop.wait(max(period - (system_clock() - started) / SECOND, 0))


def log_tick(report: TickReport) -> None:
    """One line a tick: this one speaks even when it did nothing, because its absence is the alarm."""
    counts = {name: value for name, value in vars(report.handled).items() if value and not isinstance(value, list)}
    places = {"shards": report.shards, "locked": report.locked, "unavailable": report.unavailable}
    state = {"behind_ms": report.behind, "stopped": report.stopped, "throttled": report.throttled}
    log.info("tick.done", extra=state | places | counts)
