"""The clock of this process, the default where no other clock is passed.

A job can shift the clock that its process reads, as tools of tests do, and the clock of a host can jump. A run of another tenant must not
end before it began for that. So the time is taken from the wall clock once and moved by the monotonic clock from then on. While the wall
clock says nearly the same, it is followed. If it does not, the services decide, whose answers say what time it is (``Date``):

    the answers agree with …      then
    this clock                    it goes on; the wall clock was shifted
    the wall clock                it is followed: it was set right, or the machine was suspended
    neither                       the answers are followed: the clock of the host is wrong

Until an answer comes, this clock goes on by the monotonic one.
"""

from __future__ import annotations

import calendar
import logging
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

log = logging.getLogger(__name__)

NEAR = 1_000  # ms by which the wall clock may differ and is followed
TRUSTED = 5_000  # ms by which a clock may differ from an answer's date, which is in whole seconds
WRONG = 10_000  # ms from which the answers are followed if both clocks differ from them: runs are stolen by clocks so far apart
SLOW = 2_000  # ms for which an answer may have been awaited: the date of a slow one says little

_MS = 1_000_000  # ns

# Bound here, as what replaces the functions of ``time`` must not replace this. CLOCK_BOOTTIME goes on while the machine is suspended.
_steady_ns: Callable[[], int] = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic_ns
)


def _wall_ns() -> int:
    """Looked up at each call: a tool of tests that was at work during the import is not kept."""
    return time.time_ns()


class SteadyClock:
    """UTC milliseconds of one process. Thread-safe."""

    def __init__(self, wall_ns: Callable[[], int] = _wall_ns, steady_ns: Callable[[], int] = _steady_ns) -> None:
        self._wall_ns, self._steady_ns = wall_ns, steady_ns
        self._ahead = wall_ns() // _MS - steady_ns() // _MS  # of the monotonic clock
        self._heard = ""  # the last date that was judged
        self._lock = threading.Lock()

    def __call__(self) -> int:
        """UTC milliseconds."""
        steady, wall = self._steady_ns() // _MS, self._wall_ns() // _MS
        if not -NEAR <= wall - steady - self._ahead <= NEAR:
            return steady + self._ahead
        self._ahead = wall - steady
        return wall

    def steady(self) -> int:
        """Milliseconds of the monotonic clock."""
        return self._steady_ns() // _MS

    def lead(self) -> int:
        """Milliseconds by which it is ahead of the monotonic clock: a correction changes it."""
        return self._ahead

    def heard(self, date: str | None, since: int) -> None:
        """Compare with the ``Date`` of an answer whose request was sent at ``since``, by ``steady``. The same date is judged once."""
        if date is None or date == self._heard:
            return
        self._heard = date
        from email.utils import parsedate  # noqa: PLC0415 (it loads sockets, which an answer has needed)

        parsed, steady = parsedate(date), self.steady()
        if parsed is None or not 0 <= steady - since <= SLOW:
            return
        there = calendar.timegm(parsed) * 1_000 + NEAR // 2
        with self._lock:
            before, wall = steady + self._ahead, self._wall_ns() // _MS
            if abs(before - there) <= TRUSTED:
                return
            if abs(wall - there) <= TRUSTED:
                self._ahead = wall - steady
            elif min(abs(before - there), abs(wall - there)) > WRONG:
                self._ahead = there - steady
            else:
                return
            after = steady + self._ahead
        log.warning("clock.corrected", extra={"by_ms": after - before, "wall_off_ms": wall - after})


system_clock = SteadyClock()
