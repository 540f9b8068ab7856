"""Stable spreading: the delay of a fire depends on schedule and fire alone, so that every component computes the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from minutehand.timing.timetables import LATEST, Timetable, previous

LONGEST = 86400  # seconds of a window
_NEAR = 60_000  # milliseconds


def stable(text: str) -> int:
    """A hash of ``text`` that is the same on every machine and in every version."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True)
class SpreadFires:
    """The fires of a timetable, each moved later by less than ``window``, never as far as the next or past ``last``."""

    table: Timetable
    window: int  # milliseconds
    seed: str  # the schedule's identity, or a random seed of its own
    last: int = LATEST  # UTC milliseconds

    def next(self, after: int) -> int | None:
        """See ``Timetable``."""
        due = self._unmoved(after)
        return None if due is None else self._moved(due)

    def nth(self, after: int, number: int) -> int | None:
        """The ``number``-th fire later than ``after``: order and count are those of the timetable that is spread."""
        due = self._unmoved(after)
        for _ in range(number - 1):
            due = None if due is None else self.table.next(due)
        return None if due is None else self._moved(due)

    def _unmoved(self, after: int) -> int | None:
        """The fire, before its delay, whose delayed time is the first one later than ``after``."""
        due = self._before(after)
        return due if due is None or self._moved(due) > after else self.table.next(due)

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

    def _moved(self, due: int) -> int:
        """The delayed time. A delay has whole seconds, which are easier to read."""
        following = self.table.next(due)
        room = min(self.window, (LATEST if following is None else following) - due, self.last - due + 1)
        return due + stable(f"{self.seed}\n{due}") % max(1, room // 1000) * 1000
