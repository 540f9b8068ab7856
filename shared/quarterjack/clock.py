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
from email.utils import parsedate

log = logging.getLogger(__name__)

NEAR = 1_000  # ms by which the wall clock may differ and is followed
TRUSTED = 5_000  # ms by which a clock may differ from an answer's date, which is in whole seconds
WRONG = 10_000  # ms from which the answers are followed if both clocks differ from them: runs are stolen by clocks so far apart
SLOW = 2_000  # ms for which an answer may have been awaited: the date of a slow one says little

# Bound here, as what replaces the functions of ``time`` must not replace these. CLOCK_BOOTTIME goes on while the machine is suspended.
if sys.platform == "linux":

    def _steady(
        read: Callable[[int], int] = time.clock_gettime_ns, clock: int = time.CLOCK_BOOTTIME, ns: int = 1_000_000
    ) -> int:
        return read(clock) // ns
else:

    def _steady(read: Callable[[], int] = time.monotonic_ns, ns: int = 1_000_000) -> int:
        return read() // ns


def _wall() -> int:
    return time.time_ns() // 1_000_000


class SteadyClock:
    """UTC milliseconds of one process. Thread-safe."""

    def __init__(self, wall: Callable[[], int] = _wall, steady: Callable[[], int] = _steady) -> None:
        self._wall, self.steady = wall, steady
        self._ahead = wall() - steady()  # of the monotonic clock
        self._heard = ""  # the last date that was judged
        self._lock = threading.Lock()

    def __call__(self) -> int:
        """UTC milliseconds."""
        steady, wall = self.steady(), self._wall()
        if abs(wall - steady - self._ahead) <= NEAR:
            self._ahead = wall - steady
        return steady + self._ahead

    def heard(self, date: str | None, since: int) -> None:
        """Compare with the ``Date`` of an answer whose request was sent at ``since``, by ``steady``. The same date is judged once."""
        if date is None or date == self._heard:
            return
        self._heard = date
        parsed, steady = parsedate(date), self.steady()
        if parsed is None or not 0 <= steady - since <= SLOW:
            return
        there = calendar.timegm(parsed) * 1_000 + NEAR // 2
        with self._lock:
            before, wall = steady + self._ahead, self._wall()
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
