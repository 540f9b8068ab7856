"""A parsed cron expression as a pattern of wall-clock seconds: days of a month, times of day, and the search for the next."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterable
from dataclasses import field
from datetime import date
from functools import cached_property, reduce
from operator import or_

from quarterjack.timing.zones.zone import FOREVER, LAST_YEAR
from quarterjack.values import value

NEVER = -1
EPOCH = date(1970, 1, 1).toordinal()
_WEEKS = sum(1 << 7 * week for week in range(6))  # repeats a week's seven bits over a month
_KEPT = 120  # months that one expression caches: more than a chain looks ahead, and a bound on memory


@value()
class TimesOfDay:
    """Every combination of these hours, minutes and seconds."""

    hours: int
    minutes: int
    seconds: int

    @cached_property
    def first(self) -> int:
        """The earliest of the day, seconds since midnight."""
        return lowest(self.hours) * 3600 + lowest(self.minutes) * 60 + lowest(self.seconds)

    def next(self, clock: int) -> int:
        """The first matching second of the day at or after ``clock``; ``NEVER`` if the day has no more."""
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
        return NEVER

    def within(self, clock: int, unit: int) -> TimesOfDay:
        """Those in the hour (``unit`` 3600), minute (60) or second (1) of ``clock``."""
        hour, rest = divmod(clock, 3600)
        minute, second = divmod(rest, 60)
        minutes = self.minutes if unit > 60 else self.minutes & 1 << minute
        return TimesOfDay(self.hours & 1 << hour, minutes, self.seconds if unit > 1 else self.seconds & 1 << second)

    def times(self) -> TimeList:
        return TimeList(listed(self.hours), listed(self.minutes), listed(self.seconds))


@value(slots=True)
class TimeList:
    """Up to 86,400 times of day as a sequence that computes its items."""

    hours: list[int]
    minutes: list[int]
    seconds: list[int]

    def __len__(self) -> int:
        return len(self.hours) * len(self.minutes) * len(self.seconds)

    def __getitem__(self, index: int) -> int:
        rest, second = divmod(index, len(self.seconds))
        hour, minute = divmod(rest, len(self.minutes))
        return self.hours[hour] * 3600 + self.minutes[minute] * 60 + self.seconds[second]


@value(slots=True)
class Days:
    """The values of day-of-month and day-of-week. A weekday is 0 for Sunday to 6."""

    dates: int = 0  # bits 1-31
    from_end: int = 0  # bit n: the n-th day before the last (L is bit 0, L-3 bit 3)
    nearest: int = 0  # bit n: the weekday (Monday to Friday) nearest to the n-th, within the month
    last_workday: bool = False  # LW
    weekdays: int = 0  # bits 0-6
    nth: tuple[tuple[int, int], ...] = ()  # (weekday, which of the month: 1-5, or 0 for the last)
    either: bool = False  # a day matches if one of the two fields does; else both must match

    @property
    def plain(self) -> bool:
        """No L, W or #: the same dates and weekdays match in every month."""
        return not (self.from_end or self.nearest or self.last_workday or self.nth)

    def of(self, first: int, length: int) -> int:
        """The matching days of a month of ``length`` days whose 1st is weekday ``first``."""
        whole = bits(1, length)
        by_date = self.dates & whole
        by_week = ((self.weekdays * _WEEKS >> first) << 1) & whole
        if not self.plain:
            by_date |= self._special_dates(first, length)
            by_week |= self._nth_days(first, length)
        return by_date | by_week if self.either else by_date & by_week

    def _special_dates(self, first: int, length: int) -> int:
        days = [length - back for back in listed(self.from_end) if back < length]
        days += [_nearest(day, first, length) for day in listed(self.nearest) if day <= length]
        days += [_nearest(length, first, length)] if self.last_workday else []
        return union(1 << day for day in days)

    def _nth_days(self, first: int, length: int) -> int:
        days = []
        for weekday, which in self.nth:
            day = 1 + (weekday - first) % 7
            days.append(day + ((length - day) // 7 * 7 if which == 0 else 7 * (which - 1)))
        return union(1 << day for day in days if day <= length)


def _nearest(day: int, first: int, length: int) -> int:
    weekday = (first + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


def lengths(number: int) -> tuple[int, int]:
    """How many days a month has in a common year and in a leap year."""
    return monthrange(2023, number)[1], monthrange(2024, number)[1]


@value(slots=True)
class CronPattern:
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
        if coming & 1 and (found := self.clock.next(clock)) != NEVER:
            return day * 86400 + found
        if coming := coming >> 1:
            return (day + 1 + lowest(coming)) * 86400 + self.clock.first
        return self._in_later_month(today.year, today.month)

    def matching(self, year: int, number: int) -> int:
        """The matching days of a month, bit 1 for the 1st."""
        key = year * 12 + number
        if key not in self._months:
            if len(self._months) >= _KEPT:
                self._months.clear()
            weekday, length = monthrange(year, number)
            wanted = self.months >> number & 1 and (not self.years or year in self.years)
            self._months[key] = self.days.of((weekday + 1) % 7, length) if wanted else 0
        return self._months[key]

    def _in_later_month(self, year: int, number: int) -> int:
        months = listed(self.months)
        for later in self.years or range(year, LAST_YEAR + 1):
            for each in months:
                if (later, each) > (year, number) and (found := self.matching(later, each)):
                    return (date(later, each, 1).toordinal() - EPOCH + lowest(found) - 1) * 86400 + self.clock.first
        return FOREVER


# Sets of small numbers as the bits of an integer: bit n is set if n is in the set.


def bits(low: int, high: int, step: int = 1) -> int:
    """The set of ``low``, ``low + step`` … up to ``high``."""
    return (1 << high + 1) - (1 << low) if step == 1 else sum(1 << value for value in range(low, high + 1, step))


def lowest(bits: int) -> int:
    """The lowest number of a set that is not empty."""
    return (bits & -bits).bit_length() - 1


def listed(bits: int) -> list[int]:
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


def union(sets: Iterable[int]) -> int:
    return reduce(or_, sets, 0)
