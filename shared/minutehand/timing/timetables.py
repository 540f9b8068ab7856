"""Timetables: the instants at which fires are due, in UTC milliseconds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from minutehand.timing.zones.zone import FIRST_SECOND, LAST_SECOND

EARLIEST, LATEST = FIRST_SECOND * 1000, LAST_SECOND * 1000  # UTC milliseconds: nothing is due outside


class Timetable(Protocol):
    """The fires of a schedule, strictly ascending."""

    def next(self, after: int) -> int | None:
        """The first fire later than ``after``; None if there is none."""


def fires(table: Timetable, after: int, upto: int) -> Iterator[int]:
    """The fires in ``(after, upto]``."""
    due = table.next(after)
    while due is not None and due <= upto:
        yield due
        due = table.next(due)


def previous(table: Timetable, before: int, not_before: int) -> int | None:
    """The last fire in ``[not_before, before)``; None if there is none. Bisects: about 40 calls of ``next`` for a year."""
    found = _until(table, not_before - 1, before)
    high = before  # (high, before) holds no fire
    while found is not None and (due := _until(table, found, before)) is not None:
        middle = (found + high) // 2
        late = _until(table, middle, before)
        found, high = (due, middle) if late is None else (late, high)
    return found


def _until(table: Timetable, after: int, before: int) -> int | None:
    due = table.next(after)
    return due if due is not None and due < before else None


@dataclass(frozen=True, slots=True)
class EveryInterval:
    """``first`` and then every ``period`` of elapsed time; changes of the clocks have no effect."""

    first: int
    period: int

    def next(self, after: int) -> int | None:
        """See ``Timetable``."""
        if after < self.first:
            return self.first if self.first <= LATEST else None
        due = after + self.period - (after - self.first) % self.period
        return due if due <= LATEST else None


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of instants, ascending."""

    instants: tuple[int, ...]

    def next(self, after: int) -> int | None:
        """See ``Timetable``."""
        at = bisect_right(self.instants, after)
        return self.instants[at] if at < len(self.instants) else None


@dataclass(frozen=True, slots=True)
class Union:
    """All fires of several timetables, each instant once."""

    tables: tuple[Timetable, ...]

    def next(self, after: int) -> int | None:
        """See ``Timetable``."""
        return min((due for table in self.tables if (due := table.next(after)) is not None), default=None)


@dataclass(frozen=True, slots=True)
class Without:
    """A timetable without some of its instants."""

    table: Timetable
    removed: frozenset[int]

    def next(self, after: int) -> int | None:
        """See ``Timetable``."""
        due = self.table.next(after)
        while due is not None and due in self.removed:
            due = self.table.next(due)
        return due


@dataclass(frozen=True, slots=True)
class Bounded:
    """The fires of a timetable in ``[first, last]``."""

    table: Timetable
    first: int = EARLIEST
    last: int = LATEST

    def next(self, after: int) -> int | None:
        """See ``Timetable``."""
        due = self.table.next(max(after, self.first - 1))
        return due if due is not None and due <= self.last else None


def union(tables: list[Timetable]) -> Timetable:
    """One timetable out of at least one."""
    return tables[0] if len(tables) == 1 else Union(tuple(tables))
