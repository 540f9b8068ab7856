"""The days of a year that a recurrence rule names, as a set (``timing.bits``; 0 is January 1st)."""

from __future__ import annotations

from calendar import isleap, monthrange
from dataclasses import dataclass, field
from datetime import date

from minutehand.timing.bits import bits, listed, lowest, union
from minutehand.timing.cron.month_days import EPOCH
from minutehand.timing.rrule.parser import Recur
from minutehand.timing.zones.zone import LAST_YEAR

NO_DAY = 10**9  # days; later than any
_ALL_MONTHS = range(1, 13)
_WEEKS = sum(1 << 7 * week for week in range(54))


@dataclass(frozen=True, slots=True)
class YearDays:
    """The BY parts that choose days. A weekday is 0 for Monday to 6."""

    recur: Recur
    month_days: tuple[int, ...]  # BYMONTHDAY, or the day of DTSTART where the rule leaves it out
    weekdays: tuple[tuple[int, int], ...]  # BYDAY, likewise
    months: tuple[int, ...]  # BYMONTH, likewise
    _kinds: dict[tuple[int, bool, bool, bool], int] = field(default_factory=dict, init=False, compare=False, repr=False)

    @classmethod
    def of(cls, recur: Recur, start: date) -> YearDays:
        """A part that the rule leaves out has the value of DTSTART (RFC 5545 3.3.10)."""
        months = recur.by.get("BYMONTH", ())
        month_days = recur.by.get("BYMONTHDAY", ())
        weekdays = recur.days
        if not (month_days or weekdays or "BYYEARDAY" in recur.by or "BYWEEKNO" in recur.by):
            if recur.freq == "YEARLY" and not months:
                months = (start.month,)
            if recur.freq in ("YEARLY", "MONTHLY"):
                month_days = (start.day,)
            if recur.freq == "WEEKLY":
                weekdays = ((start.weekday(), 0),)
        return cls(recur, month_days, weekdays, months)

    def next(self, day: int) -> int:
        """The first day (since 1970) that matches, from ``day`` on; ``NO_DAY`` if none does up to ``LAST_YEAR``."""
        today = date.fromordinal(day + EPOCH)
        first = day - today.timetuple().tm_yday + 1
        coming = self.matching(today.year) >> day - first
        if coming:
            return day + lowest(coming)
        for year in range(today.year + 1, LAST_YEAR + 1):
            coming = self.matching(year)
            if coming:
                return date(year, 1, 1).toordinal() - EPOCH + lowest(coming)
        return NO_DAY

    def between(self, first: int, end: int) -> list[int]:
        """The matching days from ``first`` until ``end`` (excluded), of one or two years."""
        found = []
        for year in range(date.fromordinal(first + EPOCH).year, date.fromordinal(end - 1 + EPOCH).year + 1):
            begin = date(year, 1, 1).toordinal() - EPOCH
            found += [begin + day for day in listed(self.matching(year)) if first <= begin + day < end]
        return found

    def matching(self, year: int) -> int:
        """The matching days of a year; years of one kind have the same."""
        # The neighbouring years count because their weeks reach into this one.
        kind = (date(year, 1, 1).weekday(), isleap(year - 1), isleap(year), isleap(year + 1))
        if kind not in self._kinds:
            self._kinds[kind] = self._work_out(year)
        return self._kinds[kind]

    def _work_out(self, year: int) -> int:
        last = 365 if isleap(year) else 364
        whole = found = bits(0, last)
        by = self.recur.by
        if self.months:
            found &= union(bits(*_month(year, month)) for month in self.months)
        if self.month_days:
            found &= union(_numbered(self.month_days, whole, *_month(year, month)) for month in _ALL_MONTHS)
        if "BYYEARDAY" in by:
            found &= _numbered(by["BYYEARDAY"], whole, 0, last)
        if "BYWEEKNO" in by:
            found &= _weeks(by["BYWEEKNO"], self.recur.week_start, year)
        if self.weekdays:
            found &= union(self._weekday(year, last, *weekday) for weekday in self.weekdays)
        return found

    def _weekday(self, year: int, last: int, weekday: int, which: int) -> int:
        every = _WEEKS << (weekday - date(year, 1, 1).weekday()) % 7
        if not which:
            return every
        if self.recur.freq == "YEARLY" and not self.months:
            return _numbered((which,), every, 0, last)
        return union(_numbered((which,), every, *_month(year, month)) for month in _ALL_MONTHS)


def _month(year: int, month: int) -> tuple[int, int]:
    """The first and the last day of a month, counted from the beginning of its year."""
    first = date(year, month, 1).timetuple().tm_yday - 1
    return first, first + monthrange(year, month)[1] - 1


def _numbered(numbers: tuple[int, ...], every: int, first: int, last: int) -> int:
    """Those of the days ``every`` from ``first`` to ``last`` that have these numbers, counted from 1, or backwards from -1."""
    days = listed(every >> first & bits(0, last - first))
    indices = (number - 1 if number > 0 else len(days) + number for number in numbers)
    return union(1 << first + days[index] for index in indices if 0 <= index < len(days))


def _weeks(numbers: tuple[int, ...], week_start: int, year: int) -> int:
    """The days of the numbered weeks. The weeks of the neighbouring years count as far as they reach into ``year``."""
    first = date(year, 1, 1).toordinal()
    found = 0
    for of in (year - 1, year, year + 1):
        begin, end = _first_week(of, week_start), _first_week(of + 1, week_start)
        for number in numbers:
            week = begin + 7 * (number - 1) if number > 0 else end + 7 * number
            if begin <= week < end:
                offset = week - first
                found |= 127 << offset if offset >= 0 else 127 >> -offset
    return found


def _first_week(year: int, week_start: int) -> int:
    """Ordinal of the first day of the first week with at least four days in ``year``."""
    fourth = date(year, 1, 4).toordinal()
    return fourth - (fourth - 1 - week_start) % 7
