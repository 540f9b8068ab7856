"""Allowance: what a tick's claims may take of the writes of the table of runs, so that workers have the rest.

A tick claims minutes ahead, and has the time; a worker that leases has none. So claims wait for their turn, so many a second. What is
due soon waits for nothing. Nor are shards waited away that are still to be begun: when a tenth of them have been, waiting may have
taken a tenth of the tick's time for it. So whatever the share, the last shard is begun by the end of that time, or when it would have
been without a share. Waiting decides nothing: whoever waited claims as a slow ticker would, and one that dies meanwhile has claimed
nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from minutehand.domain.times import SECOND

SOON = (
    75 * SECOND
)  # before its time a fire is claimed at once: a tick that ends after 50 s leaves that to the next, up to 69 s later
LONGEST = 7 * SECOND  # that one turn is waited for: the three of a page then end before the lock of its shard does
WAITING = 0.8  # of a tick's time; the rest is for what shards that come last have more than others
LEAST = 1_000  # units a second of one invocation: its four threads, each with 2,000 fires at hand, then wait no longer than that
pause = threading.Event().wait


class WriteBudget:
    """So many write units a second for all threads of a tick; 0: as many as they like."""

    def __init__(
        self, rate: int = 0, *, start: int = 0, budget: int | None = None, wait: Callable[[float], object] = pause
    ) -> None:
        self.rate, self._start, self._budget, self._wait = rate, start, budget, wait
        self.begun: Callable[[], float] = lambda: 1.0  # the part of the tick's shards that somebody has begun
        self._free = 0.0  # UTC ms: when what was taken is used up
        self._lock = threading.Lock()

    def take(self, units: int, dues: Iterable[int], now: int) -> None:
        """Wait for so many units, not beyond what the earliest of the fires (UTC ms) allows, nor what other shards do."""
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
