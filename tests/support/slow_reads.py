"""Slow reads for a test of pages and listings: time passes by the simulated clock alone, and budgets of time see it pass."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.testing import Detail, Harness, Hook
from quarterjack.testing.memory.calls import READS, ReadLatency, SlowReads

READ_MS = 150  # of each read: three times what DynamoDB takes on a bad day


@contextmanager
def slow_reads(harness: Harness, ms: int = READ_MS) -> Iterator[None]:
    """Meanwhile each read of the harness's installation takes so long, also by the clock that ends a page of an answer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(harness.memory, "read_latency_ms", ms)
        yield


def slow_scheduler(harness: Harness, ms: int = READ_MS, **given: Any) -> Scheduler:
    """A scheduler of the harness's installation whose own reads take so long by the harness's clock."""
    hook = SlowReads(ReadLatency(harness.clock, threading.RLock(), ms), Hook())
    return Scheduler("default", patience=0, services=harness.memory.connect(hook), clock=harness.clock, **given)


class SlowWorld(Hook):
    """Each read takes its time by the harness's clock; meanwhile, if it ``goes_on``, the installation ticks and works."""

    def __init__(self, harness: Harness, *, goes_on: bool) -> None:
        self.reads, self._harness, self._goes_on = 0, harness, goes_on
        self._passing = threading.Lock()  # checks of the doctor read at the same time, and a harness has one hand

    def after_call(self, operation: str, detail: Detail) -> None:
        if operation in READS:
            with self._passing:
                self.reads += 1
                (self._harness.advance if self._goes_on else self._harness.clock.advance)(
                    timedelta(milliseconds=READ_MS)
                )
