"""A clock that a test moves."""

from __future__ import annotations

from datetime import datetime, timedelta

from quarterjack.domain.times import from_ms, to_ms
from quarterjack.errors import InvalidInput


class ManualClock:
    """A clock that a test moves. A call returns UTC milliseconds, the times inside Quarterjack.

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
        """The present time in UTC."""
        return from_ms(self._ms)

    def advance(self, by: timedelta) -> None:
        """Move forward. Raises InvalidInput for a negative length of time."""
        if by < timedelta(0):
            raise InvalidInput("by", by, "is negative", "a clock moves forward; make a new one to start earlier")
        self.reach(self._ms + by // timedelta(milliseconds=1))

    def move_to(self, at: datetime) -> None:
        """Move forward to a time (aware); a time in the past leaves the clock as it is."""
        self.reach(to_ms(at, "at"))

    def reach(self, ms: int) -> None:
        """``move_to`` in UTC milliseconds."""
        self._ms = max(self._ms, ms)
