"""Timetables: the instants at which fires are due, in UTC milliseconds, and their stable spreading."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import groupby
from typing import Protocol

from quarterjack.errors import ExpressionError
from quarterjack.timing.zones import zone as zones
from quarterjack.values import value

EARLIEST, LATEST = zones.FIRST_SECOND * 1000, zones.LAST_SECOND * 1000  # UTC milliseconds: nothing is due outside
LONGEST = 86400  # seconds of a window
_NEAR = 60_000  # milliseconds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Timetable(Protocol):
    """The fires of a schedule, strictly ascending."""

    def next(self, after: int) -> int | None:
        """The first fire later than ``after``; None if there is none."""


class Manual:
    """The timetable of what only its owner starts: no fire, and a chain entry at the end of time, so that its schedule stays active."""

    def next(self, after: int) -> int | None:
        return LATEST if after < LATEST else None


MANUAL = Manual()


def fires(table: Timetable, after: int, upto: int) -> Iterator[int]:
    """The fires in ``(after, upto]``."""
    if table is MANUAL:
        return
    if isinstance(table, Bounded):
        after, upto, table = max(after, table.first - 1), min(upto, table.last), table.table
    if isinstance(table, WithPending):
        yield from _each_once(merge(fires(table.table, after, upto), (at for at in table.due(after) if at <= upto)))
        return
    if isinstance(table, SpreadFires):
        yield from table.between(after, upto)
        return
    due = table.next(after)
    while due is not None and due <= upto:
        yield due
        due = table.next(due)


def _each_once(ascending: Iterable[int]) -> Iterator[int]:
    return (instant for instant, _ in groupby(ascending))


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


@value(slots=True)
class EveryInterval:
    """``first`` and then every ``period`` of elapsed time; changes of the clocks have no effect."""

    first: int
    period: int

    def next(self, after: int) -> int | None:
        if after < self.first:
            return self.first if self.first <= LATEST else None
        due = after + self.period - (after - self.first) % self.period
        return due if due <= LATEST else None


@value(slots=True)
class Listed:
    instants: tuple[int, ...]

    def next(self, after: int) -> int | None:
        at = bisect_right(self.instants, after)
        return self.instants[at] if at < len(self.instants) else None


@value(slots=True)
class Union:
    """All fires of several timetables, each instant once."""

    tables: tuple[Timetable, ...]

    def next(self, after: int) -> int | None:
        return min((due for table in self.tables if (due := table.next(after)) is not None), default=None)


@value(slots=True)
class Without:
    """A timetable without some of its instants."""

    table: Timetable
    removed: frozenset[int]

    def next(self, after: int) -> int | None:
        due = self.table.next(after)
        while due is not None and due in self.removed:
            due = self.table.next(due)
        return due


@value(slots=True)
class Bounded:
    """The fires of a timetable in ``[first, last]``."""

    table: Timetable
    first: int = EARLIEST
    last: int = LATEST

    def next(self, after: int) -> int | None:
        due = self.table.next(max(after, self.first - 1))
        return due if due is not None and due <= self.last else None


def union(tables: list[Timetable]) -> Timetable:
    return tables[0] if len(tables) == 1 else Union(tuple(tables))


def stable(text: str) -> int:
    """A hash of ``text`` that is the same on every machine and in every version."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


@value(slots=True)
class SpreadFires:
    """The fires of a timetable, each moved later by less than ``window``, never as far as the next or past ``last``."""

    table: Timetable
    window: int  # milliseconds
    seed: str  # the schedule's identity, or a random seed of its own
    last: int = LATEST  # UTC milliseconds
    decided: int = EARLIEST  # UTC milliseconds: the instants up to here are an earlier rule's, wherever it moved them
    apart: frozenset[int] = frozenset()  # UTC milliseconds: and so are these

    def next(self, after: int) -> int | None:
        return self.nth(after, 1)

    def nth(self, after: int, number: int) -> int | None:
        """The ``number``-th fire later than ``after``: order and count are those of the timetable that is spread."""
        due = self._first(after)
        for _ in range(number - 1):
            due = None if due is None else self._following(due)
        return None if due is None else self.moved(due)

    def between(self, after: int, upto: int) -> Iterator[int]:
        """The fires in ``(after, upto]``, without a search for each."""
        due = self._first(after)
        while due is not None and (moved := self.moved(due)) <= upto:
            yield moved
            due = self._following(due)

    def on_its_way(self, at: int) -> int | None:
        """The fire of the timetable that is spread which is due up to ``at`` and moved beyond it; None: there is none."""
        due = self._before(at)
        if due is None or due > at or self._is_decided(due):
            return None
        return due if self.moved(due) > at else None

    def _first(self, after: int) -> int | None:
        """The first fire of the timetable that is spread whose moved time is later than ``after``."""
        if after <= self.decided:
            return self._following(self.decided)
        due = self._before(after)
        if due is not None and (self._is_decided(due) or self.moved(due) <= after):
            return self._following(due)
        return due

    def _following(self, due: int) -> int | None:
        """The next fire of the timetable that is spread which this one moves."""
        following = self.table.next(due)
        while following is not None and following in self.apart:
            following = self.table.next(following)
        return following

    def _is_decided(self, due: int) -> bool:
        return due <= self.decided or due in self.apart

    def _before(self, after: int) -> int | None:
        """The last fire up to ``after``, the only one that the delay may move beyond it; if there is none, the first one later."""
        early = self.table.next(after - self.window)
        if early is None or early > after:
            return early
        following = self.table.next(early)
        if following is None or following > after:
            return early
        near = self.table.next(after - _NEAR)  # shortens the search in a dense schedule
        return previous(self.table, after + 1, near if near is not None and near <= after else following)

    def moved(self, due: int) -> int:
        """The delayed time of a fire of the timetable that is spread. A delay has whole seconds, which are easier to read."""
        following = self.table.next(due)
        room = min(self.window, (LATEST if following is None else following) - due, self.last - due + 1)
        return due + stable(f"{self.seed}\n{due}") % max(1, room // 1000) * 1000


@value(slots=True)
class WithPending:
    """The fires of a timetable, and those that an earlier rule had decided when this rule took over.

    An instant that ``base``, the rule without its delays, no longer has is not due.
    """

    table: Timetable
    base: Timetable
    pending: tuple[
        tuple[int, int], ...
    ]  # UTC ms: instants and their moved times, which are no fires of ``table``; by time

    def next(self, after: int) -> int | None:
        due = self.table.next(after)
        moved = next(self.due(after), None)
        return moved if due is None or (moved is not None and moved < due) else due

    def due(self, after: int) -> Iterator[int]:
        """The moved times later than ``after``."""
        return (at for instant, at in self.pending if at > after and has(self.base, instant))

    def are_over(self, at: int) -> bool:
        """Whether no moved time is ``at`` or later."""
        return all(moved < at for _, moved in self.pending)


def has(table: Timetable, instant: int) -> bool:
    """Whether a timetable has a fire at an instant."""
    try:
        return table.next(instant - 1) == instant
    except ExpressionError:  # all that is to come is excluded
        return False


def milliseconds(field: str, moment: object) -> int:
    """UTC milliseconds of an aware datetime; ``ExpressionError`` for anything else."""
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise ExpressionError(field, moment, "not a datetime with a time zone", "give datetime(..., tzinfo=UTC)")
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def moment(instant: int, zone: str = "UTC") -> datetime:
    """UTC milliseconds as a datetime in an IANA zone, by the rules of the ``tzdata`` package.

    Its ``tzinfo`` is ``ZoneInfo(zone)``, unless the machine's database has another offset at this instant.
    """
    utc = _EPOCH + timedelta(milliseconds=instant)
    shown = utc.astimezone(zones.zone(zone))
    if shown.utcoffset() == timedelta(seconds=zones.table(zone).offset(instant // 1000)):
        return shown
    return utc.astimezone(zones.packaged(zone))
