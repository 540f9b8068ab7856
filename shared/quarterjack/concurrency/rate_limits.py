"""Rate limits on a clock that is passed in: a token bucket, and the write budget of a tick."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from quarterjack.domain.times import SECOND

_BURST = 0.25  # seconds whose tokens the bucket holds


class StopSignal(Protocol):
    """The part of ``threading.Event`` that the bucket uses."""

    def wait(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds; True, at once, when the process stops."""


class TokenBucket:
    """``rate`` tokens a second; it holds those of a quarter of a second at most, one at least. Call ``go_on`` before each further act."""

    def __init__(self, rate: float, clock: Callable[[], int], stop: StopSignal) -> None:
        self._rate, self._clock, self._stop = rate, clock, stop
        self._most = max(rate * _BURST, 1.0)
        self._tokens, self._filled = 0.0, clock()

    def go_on(self, *, wait: bool = True) -> bool:
        """Take a token, and wait for it unless ``wait`` is false; False when the process stops."""
        self._fill()
        missing = max(1.0 - self._tokens, 0.0) if wait else 0.0
        stopped = self._stop.wait(missing / self._rate)
        self._fill()
        self._tokens = max(self._tokens - 1.0, -1.0)  # below zero if the wait was too short by this clock
        return not stopped

    def is_stopped(self) -> bool:
        """Whether the process stops."""
        return self._stop.wait(0)

    def _fill(self) -> None:
        now = self._clock()
        self._tokens = min(self._tokens + max(now - self._filled, 0) / SECOND * self._rate, self._most)
        self._filled = now


# A fire that is due within this time is claimed at once: a tick that ends after 50 s leaves it to the next, up to 69 s later.
SOON = 75 * SECOND
LONGEST = 7 * SECOND  # of one delay: the three of a page end before the lock of its shard does
WAITING = 0.8  # of a tick's time may be spent on delays; the rest is for last shards that are larger than others
LEAST = (
    1_000  # units a second of one invocation: its four threads, with 2,000 fires each, then wait no longer than LONGEST
)
pause = threading.Event().wait


class WriteBudget:
    """``rate`` write units a second for all threads of a tick; 0: no limit. ``start`` (UTC ms) and ``budget`` (ms) of the tick."""

    def __init__(
        self, rate: int = 0, *, start: int = 0, budget: int | None = None, wait: Callable[[float], object] = pause
    ) -> None:
        self.rate, self._start, self._budget, self._wait = rate, start, budget, wait
        self.begun: Callable[[], float] = lambda: 1.0  # the part of the tick's shards that have begun, 0 to 1
        self._free = 0.0  # UTC ms at which the units taken so far are used up
        self._lock = threading.Lock()

    def take(self, units: int, dues: Iterable[int], now: int) -> None:
        """Wait for write units, but not so long that the earliest of the fires (``dues``, UTC ms) or another shard is late."""
        if not self.rate or not units:
            return
        latest: float = min(dues) - SOON
        if self._budget is not None:
            latest = min(latest, self._start + WAITING * self._budget * self.begun())
        with self._lock:
            turn = max(float(now), self._free)
            self._free = min(turn + units / self.rate * SECOND, now + LONGEST)
        if min(turn, latest) > now:
            self._wait((min(turn, latest) - now) / SECOND)
