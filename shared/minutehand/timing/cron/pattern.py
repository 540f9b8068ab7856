"""A parsed cron expression as a pattern of wall-clock seconds, and the search for the next one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

from minutehand.timing.bits import listed, lowest
from minutehand.timing.cron.month_days import EPOCH, Days, month
from minutehand.timing.cron.time_of_day import NEVER, TimesOfDay
from minutehand.timing.zones.zone import FOREVER, LAST_YEAR

_KEPT = 120  # months that one expression caches: more than a chain looks ahead, and a bound on memory


@dataclass(frozen=True, slots=True)
class CronPattern:
    """The fields of a cron expression."""

    clock: TimesOfDay
    days: Days
    months: int  # bits 1-12
    years: tuple[int, ...] = ()  # ascending; empty: every year
    fixed: bool = False  # no ``*`` and no ``/`` in minute and hour
    to_the_second: bool = False  # it has a field for seconds
    # Matching days by year * 12 + month.
    _months: dict[int, int] = field(default_factory=dict, init=False, compare=False, repr=False)

    def match(self, local: int) -> int:
        """The first matching wall-clock second at or after ``local``; ``FOREVER`` if there is none."""
        day, clock = divmod(local, 86400)
        today = date.fromordinal(day + EPOCH)
        coming = self.matching(today.year, today.month) >> today.day
        if coming & 1:
            found = self.clock.next(clock)
            if found != NEVER:
                return day * 86400 + found
        coming >>= 1
        if coming:
            return (day + 1 + lowest(coming)) * 86400 + self.clock.first
        return self._in_later_month(today.year, today.month)

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
        """The first matching second after a month."""
        months = listed(self.months)
        for later in self.years or range(year, LAST_YEAR + 1):
            for each in months:
                if (later, each) > (year, number) and (found := self.matching(later, each)):
                    return (date(later, each, 1).toordinal() - EPOCH + lowest(found) - 1) * 86400 + self.clock.first
        return FOREVER
