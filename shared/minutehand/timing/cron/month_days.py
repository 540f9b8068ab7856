"""The day part of a cron expression: which days of a month match, as the bits of an integer (bit 1 is the 1st).

All of a month is decided at once by shifting and masking; the search for a day then is the search for a bit.
"""

from __future__ import annotations

from calendar import isleap
from dataclasses import dataclass
from datetime import date

EPOCH = date(1970, 1, 1).toordinal()
_LENGTHS = {number: (28, 29) if number == 2 else (30,) if number in (4, 6, 9, 11) else (31,) for number in range(1, 13)}
_WEEKS = sum(1 << 7 * week for week in range(6))  # repeats a week's seven bits over a month


@dataclass(frozen=True, slots=True)
class Days:
    """What the fields day-of-month and day-of-week ask for. A weekday is 0 for Sunday to 6."""

    dates: int = 0  # bits 1-31
    from_end: int = 0  # bit n: the n-th day before the last (L is bit 0, L-3 bit 3)
    nearest: int = 0  # bit n: the weekday (Monday to Friday) nearest to the n-th, within the month
    last_workday: bool = False  # LW
    weekdays: int = 0  # bits 0-6
    nth: tuple[tuple[int, int], ...] = ()  # (weekday, which of the month: 1-5, or 0 for the last)
    either: bool = False  # one of the two fields is enough; else both must match

    @property
    def plain(self) -> bool:
        """No day depends on where the month ends or on which weekday it begins, but for plain weekdays."""
        return not (self.from_end or self.nearest or self.last_workday or self.nth)

    def of(self, first: int, length: int) -> int:
        """The matching days of a month of ``length`` days whose 1st is weekday ``first``."""
        whole = (1 << length + 1) - 2
        by_date = self.dates & whole
        by_week = ((self.weekdays * _WEEKS >> first) << 1) & whole
        if not self.plain:
            by_date |= self._special_dates(first, length)
            by_week |= self._nth_days(first, length)
        return by_date | by_week if self.either else by_date & by_week

    def _special_dates(self, first: int, length: int) -> int:
        found = 0
        for back in range(31):
            if self.from_end >> back & 1 and back < length:
                found |= 1 << length - back
        for day in range(1, length + 1):
            if self.nearest >> day & 1:
                found |= 1 << _nearest(day, first, length)
        if self.last_workday:
            found |= 1 << length - max(0, (first + length - 1 + 6) % 7 - 4)
        return found

    def _nth_days(self, first: int, length: int) -> int:
        found = 0
        for weekday, which in self.nth:
            day = 1 + (weekday - first) % 7
            day += (length - day) // 7 * 7 if which == 0 else 7 * (which - 1)
            if day <= length:
                found |= 1 << day
        return found


def _nearest(day: int, first: int, length: int) -> int:
    weekday = (first + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


def month(year: int, number: int) -> tuple[int, int]:
    """Weekday (0 = Sunday) of the 1st and length of a month."""
    return date(year, number, 1).toordinal() % 7, lengths(number)[-1 if isleap(year) else 0]


def lengths(number: int) -> tuple[int, ...]:
    """How many days a month has, in common years and in leap years."""
    return _LENGTHS[number]
