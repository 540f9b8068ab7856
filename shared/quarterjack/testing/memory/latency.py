"""Slow reads of an installation in memory: the answer of each moves the clock forward. Nothing waits."""

from __future__ import annotations

import threading
from collections.abc import Collection

from quarterjack.domain.names import check_whole
from quarterjack.domain.times import HOUR
from quarterjack.errors import InvalidInput
from quarterjack.ports.services import Clock
from quarterjack.testing.clock import ManualClock
from quarterjack.testing.memory.calls import Detail, Hook

# Operations that only read. A receive is none of them: it takes messages, and a long poll waits anyway.
READS = frozenset(
    {
        *("Query", "Scan", "GetItem", "BatchGetItem", "GetRecords"),
        *("GetObject", "ListObjectsV2", "ListObjectVersions"),
        *("GetParameter", "GetParametersByPath", "FilterLogEvents"),
        *("GetQueueUrl", "GetQueueAttributes", "ListQueues"),
    }
)


class ReadLatency:
    """How long a read takes (``ms``, 0 to an hour), for all processes of one installation."""

    def __init__(self, clock: Clock, lock: threading.RLock, ms: int = 0) -> None:
        self._clock, self._lock, self._ms = clock, lock, 0
        self.ms = ms

    @property
    def ms(self) -> int:
        return self._ms

    @ms.setter
    def ms(self, value: int) -> None:
        """Raises InvalidInput, also for a clock that nobody can move."""
        check_whole("read_latency_ms", value, 0, HOUR)
        if value and not isinstance(self._clock, ManualClock):
            raise InvalidInput("read_latency_ms", value, "needs a clock that a test moves", "give Memory a ManualClock")
        self._ms = value

    def passes(self) -> None:
        """One read was answered; one that fails takes no time. Reads of several threads take their time one after the other."""
        if self._ms and isinstance(self._clock, ManualClock):
            with self._lock:
                self._clock.reach(self._clock() + self._ms)


class SlowReads(Hook):
    """Around the requests of one process: a read was made, its latency passes, and ``inner`` sees its answer."""

    def __init__(self, latency: ReadLatency, inner: Hook) -> None:
        self._latency, self._inner = latency, inner

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        """See ``Hook``."""
        return self._inner.before_call(operation, detail)

    def after_call(self, operation: str, detail: Detail) -> None:
        """See ``Hook``."""
        if operation in READS:
            self._latency.passes()
        self._inner.after_call(operation, detail)
