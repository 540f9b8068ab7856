"""How many fires of many timetables lie in some spans of time, by the timetables' own stepping.

What is counted once is not stepped again: equal timetables are one, an interval is divided, and a cron expression is stepped through one
day of each kind. Its times of day are the same on every day on which it fires, as long as no change of the clocks is near.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from quarterjack.timing.cron import fields as cron
from quarterjack.timing.cron.pattern import CronPattern
from quarterjack.timing.exclusions import Excluding, MovedToBusinessDay
from quarterjack.timing.timetables import (
    LATEST,
    Bounded,
    EveryInterval,
    SpreadFires,
    Timetable,
    Union,
    Without,
    WithPending,
    fires,
)
from quarterjack.timing.zones.zone import LONGEST_OFFSET, WallClock, ZoneRules
from quarterjack.values import value

DAY = 86_400_000
_SPACE = 1_000_000  # counts that a tally keeps for equal timetables: about 8 MB


class TooDense(Exception):
    """A timetable has more fires than a tally steps through."""


class _Crossing(Exception):
    """A fire may be moved into the next span."""


@value(slots=True)
class Counted:
    """The fires of a timetable in the spans."""

    total: int
    first: int | None  # UTC ms


@dataclass(slots=True)
class _Kept:
    found: Counted
    counts: Sequence[int]  # of each span
    times: int = 0  # how many times it was asked for


class FireTally:
    """Counts the fires in ``[edges[n], edges[n + 1])``, UTC milliseconds, of all timetables that it is asked for.

    ``steps`` are those that were made, in steps of a cron expression; one timetable makes ``most`` at the most.
    """

    def __init__(self, edges: Sequence[int], most: int) -> None:
        self.edges, self.steps = list(edges), 0
        self._most, self._space = most, _SPACE
        self._sums = [0] * (len(edges) - 1)
        self._kept: dict[Timetable, _Kept] = {}
        self._unmoved: dict[tuple[Timetable, int], Sequence[int] | None] = {}  # by what is spread, and the window
        self._days: dict[str, _ZoneDays] = {}

    def add(self, table: Timetable) -> Counted:
        """Count one timetable. Raises TooDense, and ExpressionError if everything to come is excluded: then it is not counted."""
        kept = self._kept.get(table)
        if kept is None:
            kept = self._counted(table)
            if self._space < len(kept.counts):
                self._put(kept.counts, 1)
                return kept.found
            self._kept[table] = kept
            self._space -= len(kept.counts)
        kept.times += 1
        return kept.found

    def sums(self) -> Sequence[int]:
        """The fires of all that were counted, by span."""
        for kept in self._kept.values():
            self._put(kept.counts, kept.times)
            kept.times = 0
        return tuple(self._sums)

    def _put(self, counts: Sequence[int], times: int) -> None:
        for span, count in enumerate(counts):
            self._sums[span] += count * times

    def _counted(self, table: Timetable) -> _Kept:
        self.steps += 1
        table, edges = _unbounded(table, self.edges), self.edges
        first = table.next(edges[0] - 1)
        if first is None or first >= edges[-1]:
            return _Kept(Counted(0, None), ())
        counts = self._unspread(table) if isinstance(table, SpreadFires) else None
        if counts is not None:
            pass
        elif isinstance(table, EveryInterval):
            counts = _of_interval(table, edges)
        elif clocks := _clocks(table):
            counts = self._by_days(table, clocks, first)
        else:
            counts = [0] * (len(edges) - 1)
            self._step(table, first - 1, edges[-1], counts)
        return _Kept(Counted(sum(counts), first), counts)

    def _unspread(self, table: SpreadFires) -> Sequence[int] | None:
        """The counts of a spread timetable, if no fire can be moved from one span into the next; else None."""
        key, begin = (table.table, table.window), self.edges[0]
        if max((table.decided, *table.apart)) >= begin:
            return None
        if key not in self._unmoved:
            self._unmoved[key] = self._counts_unmoved(*key)
        unmoved = self._unmoved[key]
        if unmoved is None or table.last < self.edges[-1]:
            return None
        counts = list(unmoved)
        for due in fires(table.table, begin - table.window - 1, begin - 1):
            if due > table.decided and due not in table.apart and begin <= (moved := table.moved(due)) < self.edges[-1]:
                counts[bisect_right(self.edges, moved) - 1] += 1
        return counts

    def _counts_unmoved(self, table: Timetable, window: int) -> Sequence[int] | None:
        clocks, first = _clocks(table), table.next(self.edges[0] - 1)
        if not clocks or first is None or first >= self.edges[-1]:
            return None
        try:
            return self._by_days(table, clocks, first, window)
        except _Crossing:
            return None

    def _step(self, table: Timetable, after: int, end: int, counts: list[int], window: int = 0) -> None:
        """Count the fires in ``(after, end)`` one by one. Raises _Crossing if ``window`` may move one into the next span."""
        edges, weight = self.edges, _weight(table)
        span = bisect_right(edges, after + 1) - 1
        left = self._most // weight
        for number, due in enumerate(fires(table, after, end - 1)):
            while due >= edges[span + 1]:
                span += 1
            if due + window > edges[span + 1]:
                raise _Crossing
            counts[span] += 1
            if number >= left:
                raise TooDense
            self.steps += weight

    def _by_days(self, table: Timetable, clocks: Sequence[WallClock], first: int, window: int = 0) -> list[int]:
        """Step through one day of each kind, and through the days near a change of the clocks."""
        counts, edges, zone = [0] * (len(self.edges) - 1), self.edges, clocks[0].zone
        days = self._days.get(zone.name)
        if days is None:
            days = self._days[zone.name] = _ZoneDays(zone, edges)
        stepped: dict[tuple[object, ...], Sequence[int]] = {}
        due: int | None = first
        while due is not None and due < edges[-1]:
            day = days.of(due)
            if day.kind is None:
                self._step(table, due - 1, day.end, counts, window)
            else:
                matches = (True,) if len(clocks) == 1 else tuple(_fires_in(one, day) for one in clocks)
                known = stepped.get((day.kind, matches))
                if known is None:
                    fresh = [0] * len(counts)
                    self._step(table, due - 1, day.end, fresh, window)
                    known = stepped[day.kind, matches] = fresh[day.span : day.span + day.spans]
                for place, number in enumerate(known, day.span):
                    counts[place] += number
            self.steps += 1
            due = table.next(day.end - 1)
        return counts


def _fires_in(clock: WallClock, day: _Day) -> bool:
    due = clock.next(day.begin - 1)
    return due is not None and due < day.end


def _unbounded(table: Timetable, edges: Sequence[int]) -> Timetable:
    """A timetable without bounds that lie outside of the spans, and without fires of an earlier rule that are over."""
    if isinstance(table, Bounded) and table.first <= edges[0] and table.last >= edges[-1] - 1:
        table = table.table
    if isinstance(table, WithPending) and table.are_over(edges[0]):
        table = table.table
    if isinstance(table, Without) and max(table.removed, default=0) < edges[0]:
        table = table.table
    return table


def _clocks(table: Timetable) -> Sequence[WallClock]:
    """The cron expressions of a timetable whose times of day are the same on each day on which they fire; none if it is no such."""
    if isinstance(table, Excluding):
        return _clocks(table.table) if table.days and all(map(_is_daily, table.exclusions.times)) else ()
    if isinstance(table, Union):
        found = [one for each in table.tables for one in _clocks(each)]
        return found if len(found) == len(table.tables) else ()
    if isinstance(table, WallClock) and isinstance(table.pattern, CronPattern):
        return (table,)
    return ()


def _is_daily(pattern: CronPattern) -> bool:
    """Whether it matches on every day of every year."""
    days = pattern.days
    every = days.plain and days.dates == cron.DAY.every and days.weekdays == cron.WEEKDAY.every
    return every and pattern.months == cron.MONTH.every and not pattern.years


def _weight(table: Timetable) -> int:
    """What a step of it takes, in steps of a cron expression."""
    if isinstance(table, (Bounded, Without, WithPending)):
        return _weight(table.table)
    if isinstance(table, Excluding):
        return 1 + table.weight
    if isinstance(table, MovedToBusinessDay):
        return 25
    if isinstance(table, SpreadFires):
        return 4 * _weight(table.table)
    return len(table.tables) if isinstance(table, Union) else 1


def _of_interval(table: EveryInterval, edges: Sequence[int]) -> list[int]:
    """By division: its fires are every ``period`` from ``first`` on."""
    before = [max(0, (min(edge, LATEST + 1) - 1 - table.first) // table.period + 1) for edge in edges]
    return [late - early for early, late in pairwise(before)]


@value(slots=True)
class _Day:
    """The part of a local day that the spans have."""

    begin: int  # UTC ms
    end: int  # excluded
    span: int  # the first one that has some of it
    spans: int  # how many do
    kind: (
        tuple[int, ...] | None
    )  # equal for days that the spans divide in the same way; None: a change of the clocks is near


class _ZoneDays:
    """The days of one zone."""

    def __init__(self, zone: ZoneRules, edges: Sequence[int]) -> None:
        self._zone, self._edges = zone, edges
        self._days: dict[int, _Day] = {}

    def of(self, instant: int) -> _Day:
        """The day of an instant that is in the spans, or if a change of the clocks is near, the time up to the end of its day."""
        number = self._zone.local(instant // 1000) // 86400
        day = self._days.get(number)
        if day is not None:
            return day
        begin, end = self._midnight(number), self._midnight(number + 1)
        if end - begin == DAY and self._is_far_from_changes(begin // 1000, end // 1000):
            day = self._days[number] = self._plain(begin, end)
            return day
        while end <= instant:  # its last hour comes twice
            number += 1
            end = self._midnight(number + 1)
        return _Day(instant, min(end, self._edges[-1]), 0, 0, None)

    def _is_far_from_changes(self, begin: int, end: int) -> bool:
        """Whether no change of the clocks moves or repeats what is between two instants (UTC seconds)."""
        near = self._zone.changes(begin - LONGEST_OFFSET, end + LONGEST_OFFSET)
        return all(
            instant + abs(after - before) <= begin or end <= instant - abs(after - before)
            for instant, before, after in near
        )

    def _midnight(self, number: int) -> int:
        return self._zone.reaches(number * 86400) * 1000

    def _plain(self, begin: int, end: int) -> _Day:
        edges = self._edges
        cut, until = max(begin, edges[0]), min(end, edges[-1])
        span, last = bisect_right(edges, cut) - 1, bisect_right(edges, until - 1) - 1
        inside = tuple(edge - begin for edge in edges[span + 1 : last + 1])
        return _Day(cut, until, span, last - span + 1, (cut - begin, until - begin, *inside))
