"""A page of a listing, and what it may read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quarterjack.errors import Unreadable
from quarterjack.values import value

OnRead = Callable[[float], object]  # gets the read units of a request


# A page that takes one request a day may be a hundred requests, one after the other. Where each takes 150 ms, the page would outlast the
# 10 s for which a client of HTTP commonly waits, and the 29 s of the API's function.
PAGE_MS = 2_000


@dataclass
class ReadBudget:
    """What one page of a listing may read: it ends after the request that reaches ``most`` units, with a cursor.

    With a clock it ends as well after the request that is under way when ``PAGE_MS`` have passed.
    """

    most: float  # read units
    clock: Callable[[], int] | None = None  # UTC ms; None: the time does not count
    units: float = 0.0  # so far

    def __post_init__(self) -> None:
        self._began = 0 if self.clock is None else self.clock()

    def spend(self, units: float) -> None:
        """Count one request."""
        self.units += units

    @property
    def is_over(self) -> bool:
        """Whether the page ends. Asked after a request, so that each page makes progress."""
        is_late = self.clock is not None and self.clock() - self._began >= PAGE_MS
        return is_late or self.units >= self.most


@value(kw_only=True)
class RowPage:
    """Rows of a listing in a stable order."""

    items: Sequence[Any]
    cursor: str | None = None  # pass it to read the next page; None at the end
    unread: Mapping[str, Unreadable] = field(default_factory=dict)  # of schedules, by name: rows that could not be read
