"""One recurrence rule as a pattern of wall-clock seconds: the days of a year that it names, and the times in them.

python-dateutil reads the same rules, but it never returns for a rule that never matches, and it starts from DTSTART at each
search. So dateutil is the tests' oracle, and the search is here: it alternates between the next second that the BY parts name
and the next period that INTERVAL includes, until both agree, in a bounded number of steps.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from collections.abc import Iterator
from dataclasses import field
from datetime import date

from quarterjack.timing.cron.fields import FieldToken
from quarterjack.timing.cron.pattern import EPOCH, NEVER, TimesOfDay, bits, listed, lowest, union
from quarterjack.timing.moments import CENTURY
from quarterjack.timing.rrule.parser import FREQUENCIES, Recur
from quarterjack.timing.zones.zone import FOREVER, LAST_SECOND, LAST_YEAR
from quarterjack.values import replace, value

_STEPS = 1_000  # of one search: 7 ms at worst
_COUNT_STEPS = 4_000  # of all the searches that count up to COUNT
_MONDAY = 4  # days since 1970 of the first Monday
NO_DAY = 10**9  # days; later than any
_ALL_MONTHS = range(1, 13)
_WEEKS = sum(1 << 7 * week for week in range(54))


@value(slots=True)
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
        if coming := self.matching(today.year) >> day - first:
            return day + lowest(coming)
        for year in range(today.year + 1, LAST_YEAR + 1):
            if coming := self.matching(year):
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


@value(slots=True)
class Recurrence:
    """The occurrences of an RRULE from DTSTART on, as a ``WallClockPattern``."""

    token: FieldToken  # where the rule stands, for the error
    recur: Recur
    start: int  # DTSTART on the wall clock, seconds
    days: YearDays
    clock: TimesOfDay
    last: int = FOREVER  # the last occurrence that COUNT allows
    # The last range, start included and end excluded, in which a search found nothing.
    _barren: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)], compare=False, repr=False)

    def match(self, local: int) -> int:
        """The first occurrence at or after ``local``; ``FOREVER`` if there is none."""
        return self._first(local, iter(range(_STEPS)))

    def counted(self) -> Recurrence:
        budget, found = iter(range(_COUNT_STEPS)), self.start - 1
        for _ in range(self.recur.count or 0):
            found = self._first(found + 1, budget)
        return replace(self, last=found) if self.recur.count else self

    def _first(self, local: int, budget: Iterator[int]) -> int:
        """Search from ``local``; the range in which the last search found nothing is passed over.

        ``budget`` has an item for each step that the search may take. A valid rule fails later only if they run out.
        """
        local = max(local, self.start)
        low, high = self._barren[0]
        begin = high if low <= local < high else local
        limit = local + CENTURY
        found = self._chosen(begin, limit, budget) if "BYSETPOS" in self.recur.by else self._any(begin, limit, budget)
        self._barren[0] = (low if begin == high else local, min(found, limit))
        return found if found <= self.last else FOREVER

    def _spend(self, budget: Iterator[int]) -> None:
        if next(budget, None) is None:
            if places := self.recur.by.get("BYSETPOS"):
                picked = ",".join(map(str, places))
                problem = f"BYSETPOS={picked} picks nothing, or its occurrences are too many steps apart"
                self.token.fail(problem, "give a position that the other BY parts reach within one period of FREQ")
            self.token.fail(
                "its occurrences are too many steps apart", "choose BY parts and an INTERVAL that meet more often"
            )

    def _any(self, local: int, limit: int, budget: Iterator[int]) -> int:
        """The first second from ``local`` on that the BY parts name, in a period that INTERVAL includes."""
        while (local := self._named(local)) <= limit:
            self._spend(budget)
            period = self._period(local)
            left_out = (self._period(self.start) - period) % self.recur.interval
            if not left_out:
                return local
            local = self._begin(period + left_out)
        return FOREVER

    def _chosen(self, local: int, limit: int, budget: Iterator[int]) -> int:
        """The first second from ``local`` on that BYSETPOS picks from its period."""
        found = local
        while (found := self._any(found, limit, budget)) < FOREVER:
            self._spend(budget)
            period = self._period(found)
            if picked := [second for second in self._pick(period) if second >= local]:
                return min(picked)
            found = self._begin(period + 1)
        return FOREVER

    def _named(self, local: int) -> int:
        if local > LAST_SECOND:
            return FOREVER
        day, second = divmod(local, 86400)
        if self.days.next(day) == day and (found := self.clock.next(second)) != NEVER:
            return day * 86400 + found
        day = self.days.next(day + 1)
        return day * 86400 + self.clock.first if day < NO_DAY else FOREVER

    def _pick(self, period: int) -> list[int]:
        """The times of one period that BYSETPOS picks: positions count from 1, or backwards from -1."""
        begin, unit = self._begin(period), FREQUENCIES[self.recur.freq]
        days = self.days.between(begin // 86400, -(-self._begin(period + 1) // 86400))
        times = (self.clock if unit >= 86400 else self.clock.within(begin % 86400, unit)).times()
        total = len(days) * len(times)
        indices = [place - 1 if place > 0 else total + place for place in self.recur.by["BYSETPOS"]]
        return [
            days[index // len(times)] * 86400 + times[index % len(times)] for index in indices if 0 <= index < total
        ]

    def _period(self, local: int) -> int:
        """The number of the year, month, week … that holds ``local``."""
        freq, day = self.recur.freq, local // 86400
        if freq == "YEARLY":
            return date.fromordinal(day + EPOCH).year
        if freq == "MONTHLY":
            today = date.fromordinal(day + EPOCH)
            return today.year * 12 + today.month - 1
        if freq == "WEEKLY":
            return (day - _MONDAY - self.recur.week_start) // 7
        return local // FREQUENCIES[freq]

    def _begin(self, period: int) -> int:
        freq = self.recur.freq
        if freq == "WEEKLY":
            return (period * 7 + _MONDAY + self.recur.week_start) * 86400
        if freq not in ("YEARLY", "MONTHLY"):
            return period * FREQUENCIES[freq]
        year, month = (period, 0) if freq == "YEARLY" else divmod(period, 12)
        return (date(year, month + 1, 1).toordinal() - EPOCH) * 86400


def recurrence(token: FieldToken, recur: Recur, start: int) -> Recurrence:
    """The pattern of a rule whose DTSTART shows ``start`` on the wall clock."""
    day, second = divmod(start, 86400)
    days = YearDays.of(recur, date.fromordinal(day + EPOCH))
    if days.next(day) == NO_DAY:
        token.fail(
            f"no day up to the year {LAST_YEAR} matches",
            "check BYMONTH, BYMONTHDAY, BYYEARDAY, BYWEEKNO and BYDAY together",
        )
    clock = TimesOfDay(
        hours=_clock_bits(recur, "BYHOUR", "HOURLY", second // 3600, 23),
        minutes=_clock_bits(recur, "BYMINUTE", "MINUTELY", second // 60 % 60, 59),
        seconds=_clock_bits(recur, "BYSECOND", "SECONDLY", second % 60, 59),
    )
    return Recurrence(token, recur, start, days, clock).counted()


def _clock_bits(recur: Recur, part: str, unit: str, of_start: int, high: int) -> int:
    """The BY part; left out, what DTSTART shows, or every value if the frequency is that unit or a smaller one."""
    if part in recur.by:
        return union(1 << value for value in recur.by[part])
    return bits(0, high) if FREQUENCIES[recur.freq] <= FREQUENCIES[unit] else 1 << of_start
