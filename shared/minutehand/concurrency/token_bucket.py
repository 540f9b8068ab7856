"""Pace: so many acts a second, on a clock that is passed in. Short hold-ups are caught up with, longer ones are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from minutehand.domain.times import SECOND

_BURST = 0.25  # seconds of acts that may be caught up with


class StopSignal(Protocol):
    """What a ``threading.Event`` can do."""

    def wait(self, timeout: float) -> bool:
        """Wait that many seconds; True, at once, when told to stop."""


class TokenBucket:
    """A token bucket: it holds a quarter of a second's acts at the most, one at least. The first act is free: ask before the next."""

    def __init__(self, rate: float, clock: Callable[[], int], stop: StopSignal) -> None:
        self._rate, self._clock, self._stop = rate, clock, stop
        self._most = max(rate * _BURST, 1.0)
        self._held, self._filled = 0.0, clock()

    def go_on(self, *, wait: bool = True) -> bool:
        """Wait for the next turn, or not at all; False when told to stop."""
        self._fill()
        missing = max(1.0 - self._held, 0.0) if wait else 0.0
        stopped = self._stop.wait(missing / self._rate)
        self._fill()
        self._held = max(self._held - 1.0, -1.0)  # below nought if, by the clock, the wait was too short
        return not stopped

    def is_stopped(self) -> bool:
        """Whether it was told to stop."""
        return self._stop.wait(0)

    def _fill(self) -> None:
        now = self._clock()
        self._held = min(self._held + max(now - self._filled, 0) / SECOND * self._rate, self._most)
        self._filled = now
