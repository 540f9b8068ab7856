"""The slots of a worker process, shared by the lanes of its queue."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

from quarterjack.domain.policies import Priority
from quarterjack.domain.queue import next_lane, percentages


class LaneShares:
    """A slot is for a run, or for a message that is asked for; see ``state.lanes`` for the lane that gets the next one.

    A lane is *crowded* from a poll that was full until one that is not, by any of its pollers. A free slot is left to a crowded lane whose
    turn it is, although its poller is away for a moment.
    """

    def __init__(self, slots: int, shares: Mapping[Priority, int] | None = None) -> None:
        self._slots, self._shares = slots, shares or percentages()
        self._changed = threading.Condition()
        self._used, self._waiting = Counter[Priority](), Counter[Priority]()
        self._crowded = set[tuple[Priority, int]]()  # lanes and their pollers
        self._turn = 0  # slots that were given

    @property
    def free(self) -> int:
        with self._changed:
            return self._free()

    def are_wanted(self, besides: Priority) -> bool:
        """Whether another lane is crowded."""
        with self._changed:
            return any(lane is not besides for lane, _ in self._crowded)

    def take(self, lane: Priority, most: int, *, timeout: float) -> int:
        """Wait for slots for at most ``timeout`` seconds, and no longer for pollers that are away; how many were taken, up to ``most``."""
        with self._changed:
            self._waiting[lane] += 1
            self._changed.wait_for(lambda: self._may_take(lane), timeout)
            taken = 0
            if self._free() and self._first(set(+self._waiting)) is lane:
                taken = 1
                self._give(lane, 1)
            taken += self._more(lane, most - taken) if taken else 0
            self._waiting[lane] -= 1
            self._changed.notify_all()
            return taken

    def take_free(self, lane: Priority, most: int) -> int:
        """Slots that are the lane's now, up to ``most``, without waiting."""
        with self._changed:
            return self._more(lane, most)

    def polled(self, lane: Priority, poller: int, *, full: bool) -> None:
        """A poll of a lane is over; ``full``: it brought as many messages as were asked for."""
        with self._changed:
            if full:
                self._crowded.add((lane, poller))
            else:
                self._crowded.discard((lane, poller))
                self._changed.notify_all()

    def release(self, lane: Priority, slots: int = 1) -> None:
        with self._changed:
            self._used[lane] -= slots
            self._changed.notify_all()

    def move(self, before: Priority, lane: Priority, slots: int) -> None:
        """Slots of a lane count as another's from now on."""
        with self._changed:
            self._used[before] -= slots
            self._used[lane] += slots
            self._changed.notify_all()

    def _free(self) -> int:
        return self._slots - self._used.total()

    def _may_take(self, lane: Priority) -> bool:
        return self._free() > 0 and self._first(self._wanting(lane)) is lane

    def _wanting(self, lane: Priority) -> set[Priority]:
        return {*(+self._waiting), *(crowded for crowded, _ in self._crowded), lane}

    def _first(self, wanting: set[Priority]) -> Priority | None:
        return next_lane(wanting, self._used, self._slots, self._turn, self._shares)

    def _more(self, lane: Priority, most: int) -> int:
        if len(self._wanting(lane)) == 1:  # nobody to take turns with
            taken = max(min(most, self._free()), 0)
            self._give(lane, taken)
            return taken
        taken = 0
        while taken < most and self._may_take(lane):
            taken += 1
            self._give(lane, 1)
        return taken

    def _give(self, lane: Priority, slots: int) -> None:
        self._used[lane] += slots
        self._turn += slots
