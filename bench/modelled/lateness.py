"""How late: a histogram of milliseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

STEP = 10  # ms of a bar


class Lateness:
    """Shares of fires by how late they were; a bar holds what is late by ``STEP`` ms more at the most."""

    def __init__(self) -> None:
        self.bars: Counter[int] = Counter()

    def add(self, ms: float, fires: float) -> None:
        self.bars[max(int(ms), 0) // STEP] += fires  # type: ignore[assignment]

    def add_all(self, bars: Mapping[int, float], later: float, share: float) -> None:
        """``share`` of such bars, each ``later`` ms later."""
        shift = round(later / STEP)
        for bar, fires in bars.items():
            self.bars[bar + shift] += fires * share  # type: ignore[assignment]

    def delayed(self, by: Iterable[tuple[float, float]]) -> Lateness:
        """Each later by what is drawn from ``by``: (ms, share)."""
        result = Lateness()
        for ms, share in by:
            result.add_all(self.bars, ms, share)
        return result

    @property
    def fires(self) -> float:
        return sum(self.bars.values())

    def quantile(self, share: float) -> float:
        """Seconds within which such a share of the fires started: the upper end of the bar."""
        wanted, seen = share * self.fires, 0.0
        for bar, fires in sorted(self.bars.items()):
            seen += fires
            if seen >= wanted * (1 - 1e-9):
                return (bar + 1) * STEP / 1_000
        return 0.0

    def within(self, seconds: float) -> float:
        """The share that was not later."""
        last = seconds * 1_000 / STEP
        return sum(fires for bar, fires in self.bars.items() if bar + 1 <= last) / self.fires if self.bars else 1.0
