"""Tables that answer slowly: each read moves the clock by its latency, so that budgets of time run out without a wait."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from quarterjack import Scheduler
from quarterjack.testing import Harness, Hook, ManualClock
from quarterjack.testing.memory.calls import Detail

_READS = frozenset({"Query", "Scan", "GetItem", "BatchGetItem"})


class SlowReads(Hook):
    """Moves a clock by ``latency`` before each read. ``count`` is the number of reads so far."""

    def __init__(self, clock: ManualClock, latency: timedelta) -> None:
        self._clock, self._latency, self.count = clock, latency, 0

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        del detail
        if operation in _READS:
            self.count += 1
            self._clock.advance(self._latency)
        return ()


def slow_scheduler(harness: Harness, latency: timedelta = timedelta(milliseconds=150), **given: Any) -> Scheduler:
    """A scheduler of the harness's installation whose reads take so long by the harness's clock."""
    services = harness.memory.connect(SlowReads(harness.clock, latency))
    return Scheduler("default", patience=0, services=services, clock=harness.clock, **given)
