"""Which leased runs of one process wait for which instant."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from minutehand.worker.stages import LeasedRun


class Instants:
    """Runs by the instant that they wait for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, list[LeasedRun]] = {}  # by the instant (UTC ms)

    def join(self, instant: int, leased: Sequence[LeasedRun]) -> bool:
        """True for the first that comes, who has to wait for the instant and take all of them then."""
        with self._lock:
            is_first = instant not in self._waiting
            self._waiting.setdefault(instant, []).extend(leased)
            return is_first

    def take(self, instant: int) -> list[LeasedRun]:
        """All that have joined; who comes later is a first one again."""
        with self._lock:
            return self._waiting.pop(instant)
