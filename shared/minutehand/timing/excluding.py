"""Timetables without excluded days and times: a fire there is skipped or moved to a business day.

A day is the number of days since 1970 on the wall clock of the schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from minutehand.errors import ExpressionError
from minutehand.timing.exclusions import Exclusions
from minutehand.timing.moments import Moment
from minutehand.timing.timetables import Timetable
from minutehand.timing.zones.wall_clock import Gap
from minutehand.timing.zones.zone import ZoneRules

OnExcluded = Literal["skip", "next_business_day", "previous_business_day"]

_DAYS_WITHOUT = 40 * 366  # days: if every fire for so long is excluded, the search ends
_DAYS = 3660  # days in a row that may be off besides ranges
_FARTHEST = 31  # days that a fire is moved at most; if no business day is so near, it is skipped
_WORK = 8_000  # steps of cron expressions in one search, about 30 ms
MOVE = 25  # such steps that take as long as moving one fire


@dataclass(frozen=True, slots=True)
class Excluding:
    """The fires of a timetable that are not excluded."""

    table: Timetable
    zone: ZoneRules
    exclusions: Exclusions
    weight: int  # steps of cron expressions that one fire takes
    days: bool  # whether excluded days count, or only times

    def next(self, after: int) -> int | None:
        """See ``Timetable``. Raises ``ExpressionError`` if every fire to come is excluded."""
        due = self.table.next(after)
        for _ in range(_WORK // self.weight):
            if due is None or (resume := self._blocked(due)) is None:
                return due
            if due - after > _DAYS_WITHOUT * 86_400_000:
                break
            due = self.table.next(resume)
        raise _all_excluded()

    def _blocked(self, due: int) -> int | None:
        """None if ``due`` is not excluded; else an instant up to which every fire is excluded."""
        second = due // 1000
        local = self.zone.local(second)
        today = local // 86400
        if self.days and (free := free_day(self.exclusions, today, business=False)) != today:
            return max(self.zone.reaches(free * 86400) * 1000 - 1, due)
        covered = self.exclusions.covered(local)
        if not covered:
            return None
        steady = self.zone.local(second + covered) == local + covered  # else a change of the clocks lies between
        return max((second + covered) * 1000 - 1, due) if steady else due


@dataclass(frozen=True, slots=True)
class MovedToBusinessDay:
    """The fires of a timetable, those on days off moved to a business day at the same time of day."""

    table: Timetable
    zone: ZoneRules
    exclusions: Exclusions
    forward: bool  # to the next business day, else to the previous
    gap: Gap  # if the clocks skip that time of day there

    def next(self, after: int) -> int | None:
        """See ``Timetable``. Raises ``ExpressionError`` if no business day comes."""
        day: int | None = free_day(self.exclusions, self.zone.local(after // 1000) // 86400, business=True)
        while day is not None:
            sources = self._sources(day)
            arrivals = [due for source in sources if (due := self._arrival(source, day, after)) is not None]
            if arrivals:
                return min(arrivals)
            day = self._next_day(max(sources) + 1)
        return None

    def _sources(self, day: int) -> range:
        """The days whose fires are moved to business day ``day``: itself and the days off next to it."""
        step = -1 if self.forward else 1
        return range(day, self._business_day(day + step, day, step), step)

    def _business_day(self, day: int, origin: int, step: int) -> int:
        """The first business day from ``day`` on, in steps of 1 or -1; more than ``_FARTHEST`` from ``origin`` any day."""
        while self.exclusions.off(day, business=True) and abs(day - origin) <= _FARTHEST:
            day += step
        return day

    def _arrival(self, source: int, day: int, after: int) -> int | None:
        """The first fire later than ``after`` that is moved from ``source`` to ``day``."""
        local = self.zone.local(after // 1000)
        clock = local % 86400 if local // 86400 == day else 0
        due = self.table.next(self.zone.reaches(source * 86400 + clock) * 1000 - 1)
        while due is not None and (shown := self.zone.local(due // 1000)) // 86400 <= source:
            arrived = self._at(due, shown % 86400, source, day) if shown // 86400 == source else None
            if arrived is not None and arrived > after:
                return arrived
            due = self.table.next(due)
        return None

    def _at(self, due: int, clock: int, source: int, day: int) -> int | None:
        if source == day:
            return due
        arrived = Moment(day * 86400 + clock).instant(self.zone.name, self.gap)
        return arrived if arrived is None else arrived + due % 1000

    def _next_day(self, day: int) -> int | None:
        """The business day of the first fire from ``day`` on; None if there is no more fire."""
        begin = day
        while (due := self.table.next(self.zone.reaches(day * 86400) * 1000 - 1)) is not None:
            source = self.zone.local(due // 1000) // 86400
            if source - begin > _DAYS_WITHOUT:
                raise _all_excluded()
            free = free_day(self.exclusions, source, business=True)
            target = free if self.forward else self._business_day(source, source, -1)
            if abs(target - source) <= _FARTHEST:
                return target
            day = free - _FARTHEST if self.forward else free  # no earlier day is within reach of a business day
        return None


def free_day(exclusions: Exclusions, day: int, *, business: bool) -> int:
    """The first day from ``day`` on that is not off; raises ``ExpressionError`` if none comes for ten years."""
    for _ in range(_DAYS):
        if not exclusions.off(day, business=business):
            return day
        day = max(day, exclusions.last_of_range(day)) + 1
    raise _all_excluded()


def _all_excluded() -> ExpressionError:
    return ExpressionError("exclude", None, "every fire for years to come is excluded", "exclude less")
