"""From wall clock to instants: one walk over the segments of a zone, under the schedule's DST policy.

A pattern knows nothing of zones: it names the wall-clock seconds that match. This module decides what a change of the clocks does to them.

Europe/Berlin, 2026:

    02:00 ─┐ gap: 02:00 to 03:00 is never shown         first pass          second pass
           └─► 03:00      (March 29th, 01:00 UTC)       02:00 ──► 03:00 ─►  02:00 ──► 03:00   (October 25th, 01:00 UTC)
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal, Protocol

from minutehand.schedule.zones import FIRST_SECOND, FOREVER, LAST_SECOND, Zone

Gap = Literal["next_valid", "skip", "shift"]
Repeated = Literal["first", "second", "both"]

_DAYS = 2 * 86400  # seconds; more than any offset


class Pattern(Protocol):
    """The wall-clock seconds (counted as if they were UTC) at which something is due."""

    def match(self, local: int) -> int:
        """The first matching second at or after ``local``; ``FOREVER`` if there is none."""


@dataclass(frozen=True, slots=True)
class WallClock:
    """The fires of a pattern in a zone: a ``Timetable``."""

    pattern: Pattern
    zone: Zone
    gap: Gap  # a skipped wall time: fire at the first valid instant, not at all, or as if the clocks had not changed
    repeated: Repeated  # a wall time that comes twice: fire at the first, the second or both

    def next(self, after: int) -> int | None:
        """The first fire later than ``after``, in UTC milliseconds."""
        second = max(after // 1000 + 1, FIRST_SECOND)
        if second > LAST_SECOND:
            return None
        zone = self.zone
        zone.reach(second)
        segment = bisect_left(zone.starts, second) - 1  # asked for the very start of a segment, come from the one before: a gap may lie between
        froms, untils = zone.windows[self.repeated]
        offset = zone.offsets[segment]
        local = max(second + offset, froms[segment])
        found = self.pattern.match(local)
        due = self._shifted(segment, second + zone.offsets[segment - 1]) if self.gap == "shift" else FOREVER
        if found < untils[segment]:
            due = min(due, found - offset)
        elif due == FOREVER:
            due = self._onward(segment, local, found)
        return due * 1000 if due <= LAST_SECOND else None

    def _onward(self, segment: int, local: int, found: int) -> int:
        """The first fire in a later segment. Nothing matches from ``local`` to ``found``, so most segments need no new search."""
        zone = self.zone
        zone.reach(min(found + _DAYS, LAST_SECOND))
        froms, untils = zone.windows[self.repeated]
        for later in range(segment + 1, len(zone.starts)):
            due = self._after_gap(later, local, found)
            begin = froms[later]
            if not local <= begin <= found:
                found = self.pattern.match(begin)
            local = begin
            if found < untils[later]:
                due = min(due, found - zone.offsets[later])
            if due < FOREVER:
                return due
        return FOREVER

    def _after_gap(self, segment: int, local: int, found: int) -> int:
        """When the gap before ``segment`` fires first."""
        skipped = self.zone.seen[segment]
        if self.gap == "skip" or skipped >= self.zone.opens[segment]:
            return FOREVER
        if self.gap == "shift":
            return self._shifted(segment, skipped)
        hit = found if local <= skipped <= found else self.pattern.match(skipped)
        return self.zone.starts[segment] if hit < self.zone.opens[segment] else FOREVER

    def _shifted(self, segment: int, local: int) -> int:
        """The first fire of the gap before ``segment`` at or after ``local``, a skipped time read with the offset before the gap."""
        local = max(local, self.zone.seen[segment])
        if local >= self.zone.opens[segment]:
            return FOREVER
        hit = self.pattern.match(local)
        return hit - self.zone.offsets[segment - 1] if hit < self.zone.opens[segment] else FOREVER
