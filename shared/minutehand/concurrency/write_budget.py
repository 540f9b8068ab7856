"""The write budget of a tick: a rate limit for its claims, so that the table of runs has capacity left for workers.

A tick claims minutes ahead and can wait; a worker that leases cannot. So claims are delayed to a rate. Fires that are due soon are
never delayed. Delays never keep a tick from a shard either: when a tenth of its shards have begun, delays may have used a tenth of the
time that the tick has for them. So the last shard begins by the end of that time at any rate, or when it would without a budget. A
delayed claim is the same as a slow ticker's, and a process that dies during a delay has claimed nothing of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from minutehand.domain.times import SECOND

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
