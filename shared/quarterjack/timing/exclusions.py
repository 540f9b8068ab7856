"""Exclusions: days and times of day without fires. A fire there is skipped or moved to a business day."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from datetime import date
from functools import lru_cache
from typing import Literal

from quarterjack.errors import ExpressionError
from quarterjack.timing.cron.expression import parse_cron
from quarterjack.timing.cron.fields import HOUR, MINUTE, SECOND, FieldToken, about
from quarterjack.timing.cron.pattern import EPOCH, CronPattern
from quarterjack.timing.holidays import Holidays, calendar
from quarterjack.timing.moments import Moment
from quarterjack.timing.timetables import Timetable
from quarterjack.timing.zones.zone import LAST_SECOND, LAST_YEAR, Gap, ZoneRules
from quarterjack.values import value

OnExcluded = Literal["skip", "next_business_day", "previous_business_day"]

MOST = 200  # exclusions of one schedule
MOST_EXPRESSIONS = 20  # of these, cron expressions
LONGEST = 512  # characters of one
_DATES = re.compile(r"(\d{4}-\d\d-\d\d)(?:/(\d{4}-\d\d-\d\d))?", re.ASCII)
_OTHER = re.compile(r"\s*(rate\(|at\(|DTSTART|RRULE|RDATE|EXDATE|FREQ=)", re.IGNORECASE)
_DAYS_WITHOUT = 40 * 366  # days: if every fire for so long is excluded, the search ends
_DAYS = 3660  # days in a row that may be off besides ranges
_FARTHEST = 31  # days that a fire is moved at most; if no business day is so near, it is skipped
_WORK = 8_000  # steps of cron expressions in one search, about 30 ms
MOVE = 25  # such steps that take as long as moving one fire


@value(slots=True)
class Excluding:
    """The fires of a timetable that are not excluded."""

    table: Timetable
    zone: ZoneRules
    exclusions: Exclusions
    weight: int  # steps of cron expressions that one fire takes
    days: bool  # whether excluded days count, or only times

    def next(self, after: int) -> int | None:
        """Raises ``ExpressionError`` if every fire to come is excluded."""
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
        if self.days and (free := self.exclusions.free_day(today, business=False)) != today:
            return max(self.zone.reaches(free * 86400) * 1000 - 1, due)
        covered = self.exclusions.covered(local)
        if not covered:
            return None
        steady = self.zone.local(second + covered) == local + covered  # else a change of the clocks lies between
        return max((second + covered) * 1000 - 1, due) if steady else due


@value(slots=True)
class MovedToBusinessDay:
    """The fires of a timetable, those on days off moved to a business day at the same time of day."""

    table: Timetable
    zone: ZoneRules
    exclusions: Exclusions
    forward: bool  # to the next business day, else to the previous
    gap: Gap  # if the clocks skip that time of day there

    def next(self, after: int) -> int | None:
        """Raises ``ExpressionError`` if no business day comes."""
        day: int | None = self.exclusions.free_day(self.zone.local(after // 1000) // 86400, business=True)
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
            if shown // 86400 == source:
                arrived: int | None = due
                if source != day:
                    arrived = Moment(day * 86400 + shown % 86400).instant(self.zone.name, self.gap)
                    arrived = None if arrived is None else arrived + due % 1000
                if arrived is not None and arrived > after:
                    return arrived
            due = self.table.next(due)
        return None

    def _next_day(self, day: int) -> int | None:
        """The business day of the first fire from ``day`` on; None if there is no more fire."""
        begin = day
        while (due := self.table.next(self.zone.reaches(day * 86400) * 1000 - 1)) is not None:
            source = self.zone.local(due // 1000) // 86400
            if source - begin > _DAYS_WITHOUT:
                raise _all_excluded()
            free = self.exclusions.free_day(source, business=True)
            target = free if self.forward else self._business_day(source, source, -1)
            if abs(target - source) <= _FARTHEST:
                return target
            day = free - _FARTHEST if self.forward else free  # no earlier day is within reach of a business day
        return None


def without_days(table: Timetable, zone: ZoneRules, days: Iterable[int]) -> Timetable:
    """The fires of a timetable that are on none of these days (since 1970) of a zone."""
    return Excluding(table, zone, Exclusions(ranges=_apart([(day, day) for day in days])), 1, days=True)


def _all_excluded() -> ExpressionError:
    return ExpressionError("exclude", None, "every fire for years to come is excluded", "exclude less")


@value(slots=True)
class Exclusions:
    ranges: tuple[tuple[int, int], ...] = ()  # first and last day, ascending and apart from each other
    weekends: bool = False
    holidays: Holidays | None = None
    days: tuple[CronPattern, ...] = ()  # expressions that cover whole days
    times: tuple[CronPattern, ...] = ()  # the others

    def off(self, day: int, *, business: bool) -> bool:
        """Whether ``day`` is excluded; with ``business``, also whether it is a weekend."""
        today = date.fromordinal(day + EPOCH)
        weekend = self.holidays.weekend(today) if self.holidays else today.weekday() >= 5
        return (
            ((business or self.weekends) and weekend)
            or day <= self.last_of_range(day)
            or any(pattern.matching(today.year, today.month) >> today.day & 1 for pattern in self.days)
            or (self.holidays is not None and self.holidays.holiday(today))
        )

    def free_day(self, day: int, *, business: bool) -> int:
        """The first day from ``day`` on that is not off; raises ``ExpressionError`` if none comes for ten years."""
        for _ in range(_DAYS):
            if not self.off(day, business=business):
                return day
            day = max(day, self.last_of_range(day)) + 1
        raise _all_excluded()

    def last_of_range(self, day: int) -> int:
        """The last day of the excluded range that ``day`` is in, or of the one before it."""
        at = bisect_right(self.ranges, day, key=lambda span: span[0])
        return self.ranges[at - 1][1] if at else day - 1

    def covered(self, local: int) -> int:
        """How many seconds from ``local`` on an expression excludes; 0 if ``local`` is not excluded."""
        found = 0
        for pattern in self.times:
            unit = _unit(pattern)
            begin = local - local % min(unit, 60)
            if pattern.match(begin) == begin:
                found = max(found, unit - local % unit)
        return found


def _unit(pattern: CronPattern) -> int:
    """The seconds that one match excludes: a day, hour, minute or second. Five fields exclude whole minutes."""
    if pattern.to_the_second and pattern.clock.seconds != SECOND.every:
        return 1
    if pattern.clock.minutes != MINUTE.every:
        return 60
    return 3600 if pattern.clock.hours != HOUR.every else 86400


@lru_cache(maxsize=1024)
def parse_exclusions(exclude: tuple[str, ...], calendar_name: str | None) -> Exclusions:
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
        elif text.strip().lower() == "weekends":
            weekends = True
        else:
            patterns.append(_pattern(name, text))
    if len(patterns) > MOST_EXPRESSIONS:
        raise ExpressionError(
            "exclude", len(patterns), f"more than {MOST_EXPRESSIONS} expressions", "put their times into fewer lists"
        )
    return Exclusions(
        ranges=_apart(ranges),
        weekends=weekends,
        holidays=calendar(calendar_name) if calendar_name is not None else None,
        days=tuple(pattern for pattern in patterns if _unit(pattern) == 86400),
        times=tuple(pattern for pattern in patterns if _unit(pattern) < 86400),
    )


def _apart(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


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
        return parse_cron(text, refuse)
