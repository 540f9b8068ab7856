"""The days of a month that the two day fields of a cron expression name.

A set of days is an integer with bit n for the n-th day, so that a whole month is decided by shifting and masking.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import date

from minutehand.timing.bits import bits, listed, union

EPOCH = date(1970, 1, 1).toordinal()
_WEEKS = sum(1 << 7 * week for week in range(6))  # repeats a week's seven bits over a month


@dataclass(frozen=True, slots=True)
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
        if self.last_workday:
            days.append(length - max(0, (first + length - 1 + 6) % 7 - 4))
        return union(1 << day for day in days)

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
    monday_based, length = monthrange(year, number)
    return (monday_based + 1) % 7, length


def lengths(number: int) -> tuple[int, int]:
    """How many days a month has in a common year and in a leap year."""
    return monthrange(2023, number)[1], monthrange(2024, number)[1]
