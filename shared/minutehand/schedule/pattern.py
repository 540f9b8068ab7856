"""A parsed cron expression as a pattern of wall-clock seconds, and the search for the next one."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import date

from minutehand.schedule.days import EPOCH, Days, month
from minutehand.schedule.zones import FOREVER, LAST_YEAR

_KEPT = 600  # months remembered by one expression: 50 years, the longest wait for a February 29th on one weekday and more


def lowest(bits: int) -> int:
    """The number of the lowest bit set."""
    return (bits & -bits).bit_length() - 1


@dataclass(frozen=True, slots=True)
class CronPattern:
    """The fields of a cron expression; each set of values is the bits of an integer."""

    seconds: int
    minutes: int
    hours: int
    days: Days
    months: int
    years: tuple[int, ...] = ()  # ascending; empty: every year
    fixed: bool = False  # minute and hour are set times: no ``*`` and no ``/`` in them
    _months: dict[int, int] = field(default_factory=dict, compare=False, repr=False)  # year * 12 + month → matching days

    def match(self, local: int) -> int:
        """The first matching wall-clock second at or after ``local``; ``FOREVER`` if there is none."""
        day, clock = divmod(local, 86400)
        today = date.fromordinal(day + EPOCH)
        coming = self.matching(today.year, today.month) >> today.day
        if coming & 1:
            found = self.time(clock)
            if found >= 0:
                return day * 86400 + found
        coming >>= 1
        day = day + 1 + lowest(coming) if coming else self._in_later_month(today.year, today.month)
        return day * 86400 + self.time(0) if day < FOREVER else FOREVER

    def time(self, clock: int) -> int:
        """The first matching second of a day at or after ``clock``; -1 if the day has no more."""
        hour, rest = divmod(clock, 3600)
        minute, second = divmod(rest, 60)
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1 and (coming := self.seconds >> second):
                return clock + lowest(coming)
            minute += 1
            if coming := self.minutes >> minute:
                return hour * 3600 + (minute + lowest(coming)) * 60 + lowest(self.seconds)
        hour += 1
        if coming := self.hours >> hour:
            return (hour + lowest(coming)) * 3600 + lowest(self.minutes) * 60 + lowest(self.seconds)
        return -1

    def matching(self, year: int, number: int) -> int:
        """The matching days of a month, bit 1 for the 1st."""
        key = year * 12 + number
        found = self._months.get(key)
        if found is None:
            wanted = self.months >> number & 1 and (not self.years or year in self.years)
            found = self.days.of(*month(year, number)) if wanted else 0
            if len(self._months) >= _KEPT:
                self._months.clear()
            self._months[key] = found
        return found

    def _in_later_month(self, year: int, number: int) -> int:
        """The first matching day after a month, in days since 1970."""
        while (year := self._year(year)) <= LAST_YEAR:
            coming = self.months >> number + 1
            while coming:
                number += 1 + lowest(coming)
                found = self.matching(year, number)
                if found:
                    return date(year, number, 1).toordinal() - EPOCH + lowest(found) - 1
                coming = self.months >> number + 1
            year, number = year + 1, 0
        return FOREVER

    def _year(self, year: int) -> int:
        """The first wanted year from ``year`` on."""
        if not self.years:
            return year
        at = bisect_left(self.years, year)
        return self.years[at] if at < len(self.years) else LAST_YEAR + 1
