"""Instants: what waits in one process for the same instant starts together, whatever batches it came in.

Hundreds of threads that wake at once would take turns for as long as their jobs take together; one that starts them all does not.
"""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Instants(Generic[_T]):
    """Who waits for which."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, list[_T]] = {}  # by the instant (UTC ms)

    def join(self, instant: int, member: _T) -> bool:
        """True for the first, who has to wait for the instant and take them all then; whoever else joins, is taken."""
        with self._lock:
            waiting = self._waiting.setdefault(instant, [])
            waiting.append(member)
            return len(waiting) == 1

    def take(self, instant: int) -> list[_T]:
        """All that have joined, the first of them at the head; who comes later is a first one again."""
        with self._lock:
            return self._waiting.pop(instant)
