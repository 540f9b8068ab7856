"""What a tenant uses of a limit, as one row: what was counted last, and what was taken since. Pure.

    taken    what was ever taken; it only grows, so who counts need not stop those who take
    base     what was in use when it was counted, less what had been taken by then

    in use = base + taken

What ends is not written here: that would be a write for each run. So what is in use only grows between two counts. It is counted anew
before anybody is refused, but not sooner than the last count allows (``pause``), and otherwise once an hour. Who counts claims it first,
so that of many processes that are refused at the same time one counts.

Runs are counted by the history, which is some seconds behind. What was taken since a mark, a minute ago or earlier, and is not among the
runs that the history knows from since then, is on its way into it, and counts. Permits that a process has taken and does not use count as
well, until the marks have moved on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from minutehand.domain.times import HOUR, MINUTE, SECOND
from minutehand.state.transition import Absent, Change, Compare, Condition, Plus, all_of

TRAIL = MINUTE  # by which the history may be behind: what is older and not in it is nowhere
FRESH = HOUR  # age of a count after which it is taken anew
LONGEST = MINUTE  # between two counts that find no room
SKEW = 10 * SECOND  # that the clock of who counted may be ahead


@dataclass(frozen=True, kw_only=True)
class QuotaCount:
    """What somebody who counts has found."""

    in_use: int
    seen: int = 0  # of runs: those that were accepted since the mark, also if they have ended
    cost: int = 0  # ms before which nobody counts again
    cursor: str | None = None  # of bytes: where the next call goes on, if this is a part only


@dataclass(frozen=True, kw_only=True)
class QuotaWrite:
    """A conditional write of the row."""

    changes: Mapping[str, Change]
    only_if: Condition


@dataclass(frozen=True, kw_only=True)
class Quota:
    """The row; without one nobody has counted yet. Times are UTC ms."""

    taken: int = 0
    base: int = 0
    counted_at: int = 0  # when somebody began to count
    pause: int = SECOND  # ms from then before it is counted again for somebody who finds no room
    mark_at: int = 0  # a minute ago or more
    mark: int = 0  # what had been taken by then
    newer_at: int = 0  # the next mark: what is taken or counted a minute later moves both
    newer: int = 0
    cursor: str | None = None  # of a count in parts: where it goes on
    part: int = 0  # the same: what was found so far
    start: int = 0  # the same: what had been taken when it began

    @property
    def in_use(self) -> int:
        return self.base + self.taken

    def is_due(self, now: int, *, fits: bool) -> bool:
        """Whether it is counted anew; ``fits``: there is room for what somebody wants."""
        age = now - self.counted_at
        return not -SKEW <= age < (FRESH if fits and self.cursor is None else self.pause)

    def wait(self, now: int) -> int:
        """Milliseconds until it may be counted anew."""
        return max(self.counted_at + self.pause - now, 1)

    def take(self, amount: int, most: int, now: int) -> QuotaWrite:
        """The write that takes so much of what is free, if it still is."""
        rolled = self._rolled(now)
        changes: dict[str, Change] = {"taken": Plus(amount), **rolled}
        is_there = Compare("taken", "=", self.taken) if rolled else Compare("taken", "<=", most - self.base - amount)
        return QuotaWrite(changes=changes, only_if=all_of(Compare("base", "=", self.base), is_there))

    def claim(self, now: int) -> QuotaWrite:
        """The write after which this process counts, and nobody else."""
        if self.counted_at == self.newer_at == 0:
            new = Quota(counted_at=now, mark_at=now - 1, newer_at=now - 1)  # before the first run that takes a place
            return QuotaWrite(changes=new.row(), only_if=Absent("counted_at"))
        return QuotaWrite(changes={"counted_at": now}, only_if=Compare("counted_at", "=", self.counted_at))

    def unclaimed(self, before: int) -> QuotaWrite:
        """The write of who has claimed it and could not count: the next one may at once."""
        return QuotaWrite(changes={"counted_at": before}, only_if=Compare("counted_at", "=", self.counted_at))

    def window(self, now: int) -> tuple[int, int]:
        """The latest mark that is a minute old: since when runs are looked for, and what had been taken by then."""
        return (self.newer_at, self.newer) if self.newer_at <= now - TRAIL else (self.mark_at, self.mark)

    def counted_runs(self, found: QuotaCount, now: int) -> Quota:
        """The count of who has claimed it at ``now``, when this was the row."""
        coming = max(self.taken - self.window(now)[1] - found.seen, 0)
        return replace(self, base=found.in_use + coming - self.taken, **self._rolled(now))

    def counted_bytes(self, found: QuotaCount) -> Quota:
        """The same in parts. What is taken meanwhile may be counted twice, until the next count."""
        begun = self if self.cursor is not None else replace(self, part=0, start=self.taken)
        part = begun.part + found.in_use
        if found.cursor is not None:
            return replace(begun, part=part, cursor=found.cursor)
        return replace(begun, base=part - begun.start, part=0, start=0, cursor=None)

    def settled(self, found: QuotaCount, *, fits: bool) -> QuotaWrite:
        """The write of this count by who has claimed it. Counts that find no room come ever more rarely."""
        pause = max(found.cost, SECOND if fits or self.cursor is not None else min(2 * self.pause, LONGEST))
        row = replace(self, pause=pause).row()
        del row["taken"], row["counted_at"]  # others take meanwhile
        return QuotaWrite(changes=row, only_if=Compare("counted_at", "=", self.counted_at))

    def _rolled(self, now: int) -> dict[str, Any]:
        """The marks, if the newer one is old enough to be the older one."""
        if self.newer_at > now - TRAIL:
            return {}
        return {"mark_at": self.newer_at, "mark": self.newer, "newer_at": now, "newer": self.taken}

    def row(self) -> dict[str, Any]:
        """The attributes, by name."""
        return dict(vars(self))


def quota_of(row: Mapping[str, Any]) -> Quota:
    """The reverse of ``row``. Raises KeyError, ValueError."""
    numbers: dict[str, Any] = {name: int(row[name]) for name in vars(Quota()) if name != "cursor"}
    return Quota(**numbers, cursor=row.get("cursor"))
