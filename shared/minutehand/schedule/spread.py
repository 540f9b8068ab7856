"""Stable spreading: what moves a fire depends on the schedule and the fire alone, so that every component computes the same instant."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from minutehand.schedule.tables import LATEST, Timetable, previous

LONGEST = 86400  # seconds of a window


def stable(text: str) -> int:
    """A number that depends on nothing but ``text``: the same on every machine and in every version."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True)
class Spread:
    """The fires of a timetable, each moved later by less than ``window``, but never as far as the next one or past ``last``."""

    table: Timetable
    window: int  # milliseconds
    seed: str  # the schedule's identity, or a random seed of its own
    last: int = LATEST  # UTC milliseconds

    def next(self, after: int) -> int | None:
        """See ``Timetable``."""
        due = self._before(after)
        while due is not None:
            moved = self._moved(due)
            if moved > after:
                return moved
            due = self.table.next(due)
        return None

    def _before(self, after: int) -> int | None:
        """The only fire up to ``after`` that may have moved beyond it, which is the last; else the first one later."""
        early = self.table.next(after - self.window)
        if early is None or early > after:
            return early
        following = self.table.next(early)
        if following is None or following > after:
            return early
        return previous(self.table, after + 1, early)

    def _moved(self, due: int) -> int:
        """Whole seconds are enough to spread by, and kinder to read."""
        following = self.table.next(due)
        room = min(self.window, (LATEST if following is None else following) - due, self.last - due + 1)
        return due + stable(f"{self.seed}\n{due}") % max(1, room // 1000) * 1000
