"""Entries of overlapping pages in one order, the latest first: of the entries at one place the greatest order holds."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from quarterjack.domain.history.entry import HistoryEntry
from quarterjack.domain.names import RunRef


class Merge:
    """Takes pages in descending order of their last place, and gives entries out once no later page can change or precede them."""

    def __init__(self) -> None:
        self._held: dict[
            tuple[RunRef, int], tuple[HistoryEntry, int]
        ] = {}  # the entry, and the last place of a page that has it
        self._heap: list[tuple[int, RunRef]] = []

    def add(self, entries: Iterable[HistoryEntry], last: int) -> None:
        """Entries of a page whose latest place is ``last`` (UTC ms)."""
        for entry in entries:
            place = (entry.run, entry.at)
            held = self._held.get(place)
            if held is None:
                heapq.heappush(self._heap, (-entry.at, entry.run))
            if held is None or entry.order > held[0].order:
                self._held[place] = (entry, max(last, last if held is None else held[1]))

    def before(self, watermark: int | None) -> Iterator[HistoryEntry]:
        """The entries beyond the watermark, the latest first, withdrawn ones too: every page that is still to come ends there or before.

        None: there is no further page.
        """
        while self._heap and (watermark is None or -self._heap[0][0] > watermark):
            at, run = heapq.heappop(self._heap)
            yield self._held.pop((run, -at))[0]

    def reaches(self, default: int) -> int:
        """The greatest last place of a page with entries that were not given out: who goes on later must begin there."""
        return max((last for _, last in self._held.values()), default=default)
