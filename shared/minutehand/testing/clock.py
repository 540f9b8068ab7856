"""A clock that stands still until it is told to move."""

from __future__ import annotations

from datetime import datetime, timedelta

from minutehand.domain.times import from_ms, to_ms
from minutehand.errors import InvalidInput


class ManualClock:
    """A settable clock. Called, it gives UTC milliseconds, as everything inside Minutehand wants them.

    >>> from datetime import UTC, datetime, timedelta
    >>> clock = ManualClock(datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
    >>> clock.advance(timedelta(minutes=30))
    >>> clock.now().isoformat()
    '2026-05-04T09:00:00+00:00'
    """

    def __init__(self, at: datetime) -> None:
        self._ms = to_ms(at, "at")

    def __call__(self) -> int:
        return self._ms

    def now(self) -> datetime:
        """The present moment, in UTC."""
        return from_ms(self._ms)

    def advance(self, by: timedelta) -> None:
        """Move on. Raises InvalidInput for a length of time below zero."""
        if by < timedelta(0):
            raise InvalidInput("by", by, "is negative", "a clock moves forward; make a new one to start earlier")
        self.reach(self._ms + by // timedelta(milliseconds=1))

    def move_to(self, at: datetime) -> None:
        """Move on to a moment (aware); one that has passed already leaves the clock as it is."""
        self.reach(to_ms(at, "at"))

    def reach(self, ms: int) -> None:
        """``move_to`` in UTC milliseconds."""
        self._ms = max(self._ms, ms)
