"""Fan out one tick over threads and invocations.

One invocation handles all shards until it has read more than ALONE entries; then it hands over, once, the shards that are not begun, in
groups, to further invocations of its own function. Every failure is harmless: a group that is handled twice, or by the next tick as well,
meets the shards' locks and the conditional claims; a group that is never handled is still in the agenda; a group whose hand-over failed,
or seemed to fail, comes back to this invocation.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quarterjack.concurrency.pools import RequestPool, RequestStats
from quarterjack.concurrency.rate_limits import LEAST, WriteBudget, pause
from quarterjack.errors import InvalidInput

log = logging.getLogger(__name__)

ALONE = 2_000  # entries of a tick that one invocation handles: up to 20,000 fires, some ten seconds
_KEY, _WRITES = "shards", "writes"  # of the event that hands a group over
_AT_ONCE = 8  # groups that are handed over at the same time

HandOver = Callable[[Mapping[str, Any]], bool]  # gets a group's event; False: it was not accepted


@dataclass(frozen=True, kw_only=True)
class FanOutConfig:
    """How a tick is fanned out; by default it is not."""

    threads: int = 1  # shards handled at the same time in this process
    groups: int = 1  # the most invocations of one tick, with this one
    hand_over: HandOver | None = None  # to another invocation
    only: Sequence[int] | None = None  # the shards of this invocation's group; None: all shards
    alone: int = ALONE  # entries that one invocation handles
    writes: int = 0  # write units a second for the claims of this tick, all its groups together; 0: no limit
    wait: Callable[[float], object] = pause  # waits so many seconds
    stats: RequestStats = field(default_factory=RequestStats)  # of the requests of this process's services

    def most(self, *, soon: bool) -> int:
        """The most invocations among which the writes can be divided; ``soon``: fires are due so soon that no limit applies."""
        return min(self.groups, self.writes // LEAST) if self.writes and not soon else self.groups


def group_event(shards: Sequence[int], writes: int = 0) -> dict[str, Any]:
    """The event that hands over these shards, with their part of the tick's writes."""
    return {_KEY: list(shards), _WRITES: writes}


def group_of(event: object) -> tuple[int, ...] | None:
    """The shards that an event hands over; None for a clock's event, which names none. Raises InvalidInput."""
    if not isinstance(event, Mapping) or _KEY not in event:
        return None
    shards = event[_KEY]
    sound = isinstance(shards, list) and bool(shards) and all(type(shard) is int and shard >= 0 for shard in shards)
    if not sound or len(set(shards)) < len(shards):
        raise InvalidInput(_KEY, shards, "is not a group of shards", "invoke the ticker with {} for a whole tick")
    return tuple(shards)


def writes_of(event: Mapping[str, Any]) -> int:
    """The writes a second of a group; 0 if the event names none. Raises InvalidInput."""
    writes = event.get(_WRITES, 0)
    if type(writes) is not int or writes < 0:
        raise InvalidInput(_WRITES, writes, "is not a number of units", "invoke the ticker with {} for a whole tick")
    return writes


class ShardQueue:
    """The shards of one tick that are not begun, and the decision to hand them over."""

    def __init__(self, shards: Sequence[int], config: FanOutConfig, write_budget: WriteBudget) -> None:
        self._left, self._config, self._write_budget = deque(shards), config, write_budget
        self._lock = threading.Lock()
        self._begun = self._entries = 0
        self._deep = False  # a shard has more than a page
        self._soon = False  # a shard has an entry that is due soon
        self._cut_up = False  # the hand-over happens once
        self.handed = 0  # groups that other invocations accepted
        write_budget.begun = self._part_begun

    def go_through(self, body: Callable[[int], bool]) -> bool:
        """Call ``body`` for each shard, in several threads; False as soon as a call returns False: time is up."""
        pool, going_on = RequestPool(self._config.threads, stats=self._config.stats), True
        while self._left and going_on:  # again if a group came back after all threads were done
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
        """The part of this process's shards that has begun, 0 to 1."""
        with self._lock:
            return self._begun / (self._begun + len(self._left))

    def seen(self, entries: int, *, more: bool, soon: bool) -> None:
        """Count entries that were read, of a shard with ``more`` entries, or with entries due ``soon``. Hands over if they are too many."""
        with self._lock:
            self._entries += entries
            self._deep, self._soon = self._deep or more, self._soon or soon
            able = self._config.hand_over is not None and self._config.most(soon=self._soon) > 1 and not self._cut_up
            groups = self._cut() if able and self._left and self._entries > self._config.alone else []
        if not groups:
            return
        each = self._config.writes // (len(groups) + 1)
        taken = RequestPool(_AT_ONCE).map(lambda group: (self._hand_over(group, each), 0), groups)
        self.handed = sum(taken)
        self._write_budget.rate -= self.handed * each
        log.info("tick.handed_over", extra={"groups": self.handed, "failed": len(groups) - self.handed})

    def _cut(self) -> list[list[int]]:
        """The shards that are left in groups: enough if all shards have as many entries as those read; the most if that is unknown."""
        shards = list(self._left)
        self._left.clear()
        self._cut_up = True
        expected = self._entries / max(self._begun, 1) * len(shards)
        wanted = len(shards) if self._deep else -int(-expected // max(self._config.alone, 1))
        groups = max(min(wanted, self._config.most(soon=self._soon) - 1, len(shards)), 1)
        return [shards[first::groups] for first in range(groups)]

    def _hand_over(self, group: list[int], writes: int) -> bool:
        assert self._config.hand_over is not None
        try:
            taken = self._config.hand_over(group_event(group, writes))
        except Exception:  # the group comes back, and the others are handed over
            log.exception("tick.hand_over_failed")
            taken = False
        if not taken:
            self._left.extend(group)
        return taken
