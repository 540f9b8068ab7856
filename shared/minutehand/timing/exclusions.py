"""Exclusions: days (dates, ranges, weekends, public holidays, whole-day expressions) and times (other expressions).

A day is the number of days since 1970 on the wall clock of the schedule.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from minutehand.errors import ExpressionError
from minutehand.timing.cron import expression as cron
from minutehand.timing.cron import fields
from minutehand.timing.cron.fields import FieldToken, about
from minutehand.timing.cron.month_days import EPOCH
from minutehand.timing.cron.pattern import CronPattern
from minutehand.timing.holidays import Holidays, calendar
from minutehand.timing.zones.zone import LAST_SECOND, LAST_YEAR

MOST = 200  # exclusions of one schedule
MOST_EXPRESSIONS = 20  # of these, cron expressions
LONGEST = 512  # characters of one
_KEPT = 1024
_WEEKENDS = "weekends"
_DATES = re.compile(r"(\d{4}-\d\d-\d\d)(?:/(\d{4}-\d\d-\d\d))?", re.ASCII)
_OTHER = re.compile(r"\s*(rate\(|at\(|DTSTART|RRULE|RDATE|EXDATE|FREQ=)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Days and times without fires."""

    ranges: tuple[tuple[int, int], ...] = ()  # first and last day, ascending and apart from each other
    weekends: bool = False
    holidays: Holidays | None = None
    days: tuple[CronPattern, ...] = ()  # expressions that cover whole days
    times: tuple[CronPattern, ...] = ()  # the others

    def off(self, day: int, *, business: bool) -> bool:
        """Whether ``day`` is excluded; with ``business``, also whether it is a weekend."""
        today = date.fromordinal(day + EPOCH)
        return (
            ((business or self.weekends) and self._weekend(today))
            or day <= self.last_of_range(day)
            or any(pattern.matching(today.year, today.month) >> today.day & 1 for pattern in self.days)
            or (self.holidays is not None and self.holidays.holiday(today))
        )

    def last_of_range(self, day: int) -> int:
        """The last day of the excluded range that ``day`` is in, or of the one before it."""
        at = bisect_right(self.ranges, day, key=lambda span: span[0])
        return self.ranges[at - 1][1] if at else day - 1

    def covered(self, local: int) -> int:
        """How many seconds from ``local`` on an expression excludes; 0 if ``local`` is not excluded."""
        return max((_covered(pattern, local) for pattern in self.times), default=0)

    def _weekend(self, today: date) -> bool:
        return self.holidays.weekend(today) if self.holidays else today.weekday() >= 5


def _covered(pattern: CronPattern, local: int) -> int:
    """The excluded seconds from ``local`` on: five fields exclude whole minutes, six exclude seconds. At most one hour at once."""
    begin = local if pattern.to_the_second else local - local % 60
    if pattern.match(begin) != begin:
        return 0
    whole_minute = not pattern.to_the_second or pattern.clock.seconds == fields.SECOND.every
    whole_hour = whole_minute and pattern.clock.minutes == fields.MINUTE.every
    unit = 3600 if whole_hour else 60 if whole_minute else 1
    return unit - local % unit


@lru_cache(maxsize=_KEPT)
def parse(exclude: tuple[str, ...], calendar_name: str | None) -> Exclusions:
    """Read dates, ranges ``2026-12-24/2026-12-31``, ``weekends`` and cron expressions; and the calendar."""
    if len(exclude) > MOST:
        raise ExpressionError(
            "exclude", len(exclude), f"more than {MOST} exclusions", "use ranges, an expression or calendar="
        )
    ranges, patterns, weekends = [], [], False
    for number, text in enumerate(exclude):
        name = f"exclude[{number}]"
        if len(text) > LONGEST:
            raise ExpressionError(name, text, f"longer than {LONGEST} characters", "split it into several exclusions")
        if found := _DATES.fullmatch(text.strip()):
            ranges.append(_range(name, text, found))
        elif text.strip().lower() == _WEEKENDS:
            weekends = True
        else:
            patterns.append(_pattern(name, text))
    if len(patterns) > MOST_EXPRESSIONS:
        raise ExpressionError(
            "exclude", len(patterns), f"more than {MOST_EXPRESSIONS} expressions", "put their times into fewer lists"
        )
    whole = tuple(pattern for pattern in patterns if _whole_days(pattern))
    return Exclusions(
        ranges=_apart(ranges),
        weekends=weekends,
        holidays=calendar(calendar_name) if calendar_name is not None else None,
        days=whole,
        times=tuple(pattern for pattern in patterns if pattern not in whole),
    )


def _apart(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Join ranges that touch or overlap."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


def _whole_days(pattern: CronPattern) -> bool:
    clock = pattern.clock
    seconds = not pattern.to_the_second or clock.seconds == fields.SECOND.every
    return seconds and clock.hours == fields.HOUR.every and clock.minutes == fields.MINUTE.every


def _range(name: str, text: str, found: re.Match[str]) -> tuple[int, int]:
    try:
        first, last = (date.fromisoformat(part).toordinal() - EPOCH for part in (found[1], found[2] or found[1]))
    except ValueError as error:
        raise ExpressionError(name, text, f"no such date ({error})", "give a date that the calendar has") from None
    if last > LAST_SECOND // 86400:
        raise ExpressionError(name, text, "at the end of the calendar", f"give a year up to {LAST_YEAR}")
    if first > last:
        raise ExpressionError(name, text, "the range runs backwards", f"write {found[2]}/{found[1]}")
    return first, last


def _pattern(name: str, text: str) -> CronPattern:
    if _OTHER.match(text):
        raise ExpressionError(
            name, text, "only cron expressions, dates and 'weekends' exclude", "for an RRULE use EXDATE"
        )

    def refuse(*_: object) -> int:
        FieldToken(text, 0, text).fail("H has no meaning in an exclusion", "write the times that are excluded")

    with about(name):
        return cron.parse(text, refuse)
