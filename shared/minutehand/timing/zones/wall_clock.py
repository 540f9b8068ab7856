"""From wall clock to instants: one walk over the segments of a zone, under the schedule's DST policy.

A pattern has no zone: it names the wall-clock seconds that match. This module decides how a change of the clocks affects them.

Europe/Berlin, 2026:

    March 29th, 01:00 UTC                          October 25th, 01:00 UTC
    02:00 ─┐ gap: 02:00 to 03:00 is skipped        first pass          second pass
           └─► 03:00                               02:00 ──► 03:00 ─►  02:00 ──► 03:00
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal, Protocol

from minutehand.timing.zones.zone import FIRST_SECOND, FOREVER, LAST_SECOND, LONGEST_OFFSET, Segments, ZoneRules

Gap = Literal["next_valid", "skip", "shift"]
Repeated = Literal["first", "second", "both"]


class WallClockPattern(Protocol):
    """The wall-clock seconds (counted as if they were UTC) at which something is due."""

    def match(self, local: int) -> int:
        """The first matching second at or after ``local``; ``FOREVER`` if there is none."""


@dataclass(frozen=True, slots=True)
class WallClock:
    """The fires of a pattern in a zone: a ``Timetable``."""

    pattern: WallClockPattern
    zone: ZoneRules
    gap: Gap  # a skipped wall time: fire at the first valid instant, not at all, or as if the clocks had not changed
    repeated: Repeated  # a wall time that comes twice: fire at the first, the second or both

    def next(self, after: int) -> int | None:
        """The first fire later than ``after``, in UTC milliseconds."""
        second = max(after // 1000 + 1, FIRST_SECOND)
        if second > LAST_SECOND:
            return None
        segments = self.zone.reach(second)
        # At the first second of a segment begin in the one before: there may be a gap between them.
        at = bisect_left(segments.starts, second) - 1
        froms, untils = segments.windows[self.repeated]
        offset = segments.offsets[at]
        local = max(second + offset, froms[at])
        found = self.pattern.match(local)
        due = self._shifted(segments, at, second + segments.offsets[at - 1]) if self.gap == "shift" else FOREVER
        due = min(due, found - offset) if found < untils[at] else due
        if due == FOREVER:
            due = self._onward(at, local, found)
        return due * 1000 if due <= LAST_SECOND else None

    def _onward(self, at: int, local: int, found: int) -> int:
        """The first fire in a later segment. Nothing matches between ``local`` and ``found``, so most need no search."""
        coming = found if found < FOREVER else local  # without a match only a repeated time can follow: it is near
        segments = self.zone.reach(min(coming + LONGEST_OFFSET, LAST_SECOND))
        froms, untils = segments.windows[self.repeated]
        for later in range(at + 1, len(segments.starts)):
            due = self._after_gap(segments, later, local, found)
            begin = froms[later]
            if not local <= begin <= found:
                found = self.pattern.match(begin)
            local = begin
            if found < untils[later]:
                due = min(due, found - segments.offsets[later])
            if due < FOREVER:
                return due
        return FOREVER

    def _after_gap(self, segments: Segments, at: int, local: int, found: int) -> int:
        """When the gap before segment ``at`` fires first."""
        skipped = segments.seen[at]
        if self.gap == "skip" or skipped >= segments.opens[at]:
            return FOREVER
        if self.gap == "shift":
            return self._shifted(segments, at, skipped)
        hit = found if local <= skipped <= found else self.pattern.match(skipped)
        return segments.starts[at] if hit < segments.opens[at] else FOREVER

    def _shifted(self, segments: Segments, at: int, local: int) -> int:
        """The first fire of the gap before segment ``at`` from ``local`` on, read with the offset before the gap."""
        local = max(local, segments.seen[at])
        if local >= segments.opens[at]:
            return FOREVER
        hit = self.pattern.match(local)
        return hit - segments.offsets[at - 1] if hit < segments.opens[at] else FOREVER
