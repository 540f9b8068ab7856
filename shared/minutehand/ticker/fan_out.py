"""Fan out: over how many threads and invocations one tick is spread.

One invocation does it all until it has seen more entries than one should; then it hands the shards that nobody has begun over, in
groups, to further invocations of its own function, once. That is safe in every way it can go wrong. A group that is taken twice, or by
the next tick as well, meets the shards' locks, and behind them the claims. A group that nobody takes is still in the agenda. A group
whose handing over failed, or seemed to, comes back to the one that tried.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minutehand.concurrency.request_pool import RequestPool, RequestStats
from minutehand.concurrency.write_budget import LEAST, WriteBudget, pause
from minutehand.errors import InvalidInput

log = logging.getLogger(__name__)

ALONE = 2_000  # entries of a tick that one invocation takes: up to 20,000 fires, some ten seconds
_KEY, _WRITES = "shards", "writes"  # of the event that hands a group over
_AT_ONCE = 8  # groups that are handed over at the same time

HandOver = Callable[[Mapping[str, Any]], bool]  # a group's event; False: nobody will take it


@dataclass(frozen=True, kw_only=True)
class FanOutConfig:
    """How a tick is spread out; by itself it is not."""

    threads: int = 1  # shards gone through at the same time in this process, while answers are waited for
    groups: int = 1  # invocations of one tick at most, this one included
    hand_over: HandOver | None = None  # to another invocation
    only: Sequence[int] | None = None  # this is such a group: the shards that it was given
    alone: int = ALONE  # entries that one invocation takes
    writes: int = (
        0  # units a second that its claims may take, with those of what it hands over; 0: as many as they like
    )
    wait: Callable[[float], object] = pause  # waits that many seconds, for a turn to claim
    stats: RequestStats = field(default_factory=RequestStats)  # of the requests of this process's services

    def most(self, *, soon: bool) -> int:
        """Invocations among which the writes can be divided; all, if what there is to do is due soon and waits for none."""
        return min(self.groups, self.writes // LEAST) if self.writes and not soon else self.groups


def group_event(shards: Sequence[int], writes: int = 0) -> dict[str, Any]:
    """The event that hands these shards over, with their part of the tick's writes."""
    return {_KEY: list(shards), _WRITES: writes}


def group_of(event: object) -> tuple[int, ...] | None:
    """The shards that an event hands over; None for a clock's, which says nothing. Raises InvalidInput for anything odd."""
    if not isinstance(event, Mapping) or _KEY not in event:
        return None
    shards = event[_KEY]
    sound = isinstance(shards, list) and bool(shards) and all(type(shard) is int and shard >= 0 for shard in shards)
    if not sound or len(set(shards)) < len(shards):
        raise InvalidInput(_KEY, shards, "is no group of shards", "invoke the ticker with {} for a whole tick")
    return tuple(shards)


def writes_of(event: Mapping[str, Any]) -> int:
    """The writes a second of a group; an older release's says nothing of them. Raises InvalidInput for anything odd."""
    writes = event.get(_WRITES, 0)
    if type(writes) is not int or writes < 0:
        raise InvalidInput(_WRITES, writes, "is no number of units", "invoke the ticker with {} for a whole tick")
    return writes


class ShardQueue:
    """The shards of one tick that nobody has begun, and what decides whether others are to take them."""

    def __init__(self, shards: Sequence[int], spread: FanOutConfig, write_budget: WriteBudget) -> None:
        self._left, self._spread, self._write_budget = deque(shards), spread, write_budget
        self._lock = threading.Lock()
        self._begun = self._entries = 0
        self._deep = False  # a shard has more than a page
        self._soon = False  # a shard has what is due soon
        self._cut_up = False  # others were asked, once
        self.handed = 0  # groups that others took
        write_budget.begun = self._part_begun

    def go_through(self, body: Callable[[int], bool]) -> bool:
        """``body`` for each shard, in so many threads at most; False as soon as one says that time is up."""
        pool, going_on = RequestPool(self._spread.threads, stats=self._spread.stats), True
        while self._left and going_on:  # again, should a group come back when all threads were done
            going_on = all(pool.map(lambda _: (self._next(body), 0), range(len(self._left))))
        return going_on

    def _next(self, body: Callable[[int], bool]) -> bool:
        with self._lock:
            if not self._left:
                return True
            shard = self._left.popleft()
            self._begun += 1
        return body(shard)

    def _part_begun(self) -> float:
        """Of the shards that are this process's."""
        with self._lock:
            return self._begun / (self._begun + len(self._left))

    def seen(self, entries: int, *, more: bool, soon: bool) -> None:
        """So many entries were read, whether the shard has more, and whether some are due soon. Hands over if it is too much for one."""
        with self._lock:
            self._entries += entries
            self._deep, self._soon = self._deep or more, self._soon or soon
            groups = self._cut() if self._is_too_much() else []
        if not groups:
            return
        each = self._spread.writes // (len(groups) + 1)
        taken = RequestPool(_AT_ONCE).map(lambda group: (self._hand_over(group, each), 0), groups)
        self.handed = sum(taken)
        self._write_budget.rate -= self.handed * each
        log.info("tick.handed_over", extra={"groups": self.handed, "failed": len(groups) - self.handed})

    def _is_too_much(self) -> bool:
        able = self._spread.hand_over is not None and self._spread.most(soon=self._soon) > 1 and not self._cut_up
        return able and bool(self._left) and self._entries > self._spread.alone

    def _cut(self) -> list[list[int]]:
        """What is left, in as many groups as it takes if the other shards have as many entries; all that may be if that is unknown."""
        shards = list(self._left)
        self._left.clear()
        self._cut_up = True
        expected = self._entries / max(self._begun, 1) * len(shards)
        wanted = len(shards) if self._deep else -int(-expected // max(self._spread.alone, 1))
        groups = max(min(wanted, self._spread.most(soon=self._soon) - 1, len(shards)), 1)
        return [shards[first::groups] for first in range(groups)]

    def _hand_over(self, group: list[int], writes: int) -> bool:
        assert self._spread.hand_over is not None
        try:
            taken = self._spread.hand_over(group_event(group, writes))
        except Exception:  # whatever it is, the group comes back, and the others are handed over
            log.exception("tick.hand_over_failed")
            taken = False
        if not taken:
            self._left.extend(group)
        return taken
