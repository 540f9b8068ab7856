"""What one page of an answer may cost. A page that is short of time is a page, too: time never ends one before it has read anything."""

from __future__ import annotations

from quarterjack.ports.services import Clock
from quarterjack.stores.history.pages import ReadMeter

# After so much a page of an answer ends. What is under way then ends within 250 units and 0.3 s where reads are fast: the pages of a
# folded part (400 KB at the most) or the first pages of each partition, and fifty rows of the ledger.
MOST_UNITS = 100  # read units
MOST_MS = 150  # by the caller's clock: some fifteen reads of DynamoDB, or one of a slow one
_GRACE = 50  # ms to give out what was read by then


class PageBudget:
    """The budget of one call; ``meter`` counts its reads.

    Units end it at once. Time ends it with the next request that is sent after it ran out, or after a moment: what was read until then
    is given out first, so that each page makes progress however slow the reads are.
    """

    def __init__(self, meter: ReadMeter, clock: Clock) -> None:
        self._meter, self._clock, self._end = meter, clock, clock() + MOST_MS
        self._found: tuple[int, int] | None = None  # when the time was found to be over: UTC ms, and requests so far

    def is_spent(self) -> bool:
        """Whether the reads have cost enough."""
        return self._meter.units >= MOST_UNITS

    def is_over(self) -> bool:
        """Whether the page ends here."""
        if self.is_spent():
            return True
        now = self._clock()
        if self._found is None:
            self._found = (now, self._meter.requests) if now >= self._end else None
            return False
        at, requests = self._found
        return self._meter.requests > requests or now >= at + _GRACE
