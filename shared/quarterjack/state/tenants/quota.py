"""How much of a limit a tenant uses, in one row. Pure.

    taken    places (or bytes) that were ever taken; it only grows
    base     how many were in use at the last count, less ``taken`` at that time

    in use = base + taken

Nothing is written here when a run ends: that would be one write more for each run. So the number in use only grows between two counts.
A process counts again before it refuses a call, but not before the ``pause`` of the last count is over, and otherwise once an hour. It
claims the count first: of many processes that would refuse at the same time one counts.

The history counts the runs, and it is some seconds behind. So the row keeps a mark: an instant one to two minutes ago, and ``taken`` at
that instant. Of the places that were taken since, those whose runs the history does not know yet count as in use. A place that a process
took and did not use counts likewise, until the mark moves on.

Bytes are taken before their object is stored. So a count adds what was taken since the mark and is not in the bucket yet. Only objects
stored LANDING after the mark count as those bytes: an object of before may have been stored after it. For so long what is in the bucket may
count twice; what is on its way never goes uncounted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarterjack.domain.times import HOUR, MINUTE, SECOND
from quarterjack.state.transition import Absent, Change, Compare, Condition, Plus, all_of
from quarterjack.values import replace, value

TRAIL = MINUTE  # that the history may be behind: an older place whose run it does not know is unused
FRESH = HOUR  # age of a count after which somebody counts again
LONGEST = MINUTE  # between two counts that find no room
LANDING = 20 * SECOND  # that storing an object may take after its bytes were taken, by clocks that are SKEW apart
SKEW = 10 * SECOND  # that the clock of who counted may be ahead


@value(kw_only=True)
class QuotaCount:
    """What somebody who counts has found."""

    in_use: int
    seen: int = 0  # runs that were accepted since the mark, also if they have ended; bytes that were stored since then
    cost: int = 0  # ms before which nobody counts again
    cursor: str | None = None  # of bytes: where the next call goes on, if this is a part only


@value(kw_only=True)
class QuotaWrite:
    """A conditional write of the row."""

    changes: Mapping[str, Change]
    only_if: Condition


@value(kw_only=True)
class Quota:
    """The row; without one nobody has counted yet. Times are UTC ms."""

    taken: int = 0
    taken_at: int = 0  # when something was taken last
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
    coming: int = 0  # the same: what may have been on its way then, less what was found of it
    since: int = 0  # the same: when that is stored at the earliest

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
        changes: dict[str, Change] = {"taken": Plus(amount), "taken_at": now, **rolled}
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

    def begun(self, now: int) -> Quota:
        """The row of who has claimed a count of bytes at ``now``, which begins, or goes on."""
        if self.cursor is not None:
            return self
        since, marked = self.window(now)
        if now - self.taken_at > TRAIL:
            marked = self.taken  # nothing is on its way
        # Nothing was on its way when the first mark was set: then no object of before can be stored after it.
        since = since + LANDING if marked else since // SECOND * SECOND
        return replace(self, part=0, start=self.taken, coming=self.taken - marked, since=since)

    def counted_bytes(self, found: QuotaCount, now: int) -> Quota:
        """The count, or a part of it, of who has begun it. What is taken meanwhile may be counted twice, until the next count."""
        part, coming = self.part + found.in_use, self.coming - found.seen
        if found.cursor is not None:
            return replace(self, part=part, coming=coming, cursor=found.cursor)
        base = part + max(coming, 0) - self.start
        return replace(self, base=base, part=0, start=0, coming=0, since=0, cursor=None, **self._rolled(now))

    def settled(self, found: QuotaCount, *, fits: bool) -> QuotaWrite:
        """The write of this count by who has claimed it. Counts that find no room come ever more rarely."""
        pause = max(found.cost, SECOND if fits or self.cursor is not None else min(2 * self.pause, LONGEST))
        row = replace(self, pause=pause).row()
        del row["taken"], row["taken_at"], row["counted_at"]  # others take meanwhile
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
