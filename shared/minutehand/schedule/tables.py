"""Timetables: what is due, instant by instant, and what can be said of every one of them.

All instants are UTC milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


class Timetable(Protocol):
    """The fires of a schedule, strictly ascending."""

    def next(self, after: int) -> int | None:
        """The first fire strictly later than ``after``; None when there is none any more."""


@dataclass(frozen=True, slots=True)
class Every:
    """``rate``: elapsed time, whatever the clocks do. Fires at ``origin + n * period``, the first at ``first``."""

    origin: int
    period: int
    first: int

    def next(self, after: int) -> int | None:
        """See ``Timetable``."""
        if after < self.first:
            return self.first
        return after + self.period - (after - self.origin) % self.period


def fires(table: Timetable, after: int, upto: int) -> Iterator[int]:
    """The fires in ``(after, upto]``."""
    due = table.next(after)
    while due is not None and due <= upto:
        yield due
        due = table.next(due)
