"""A token bucket on a clock that is passed in. Short delays are made up for, longer ones are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from minutehand.domain.times import SECOND

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
