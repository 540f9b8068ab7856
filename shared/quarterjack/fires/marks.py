"""Marks: what a tick has to know of tenants before it knows of whom its entries are. One query for all, once a tick.

A mark (``state/tenants/marks.py``) is a hint, put by whoever finds its reason and removed by the ticker when there is none any more:
in between nothing is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from quarterjack.ports.services import Services
from quarterjack.state.tenants.marks import MARKS, Mark
from quarterjack.stores.records import Record


def put_mark(why: Mark, name: str, services: Services) -> None:
    """Put a mark, unless it is there. Raises Unavailable."""
    services.records.write(Record(owner=MARKS, key=f"{why}{name}", version=1, body={}))


def remove_mark(why: Mark, name: str, services: Services) -> None:
    """Remove a mark. Raises Unavailable."""
    services.records.remove(Record(owner=MARKS, key=f"{why}{name}", version=1, body={}))


def marked(why: Mark, services: Services) -> list[str]:
    """What is marked. Raises Unavailable."""
    return [record.key.removeprefix(why) for record in services.records.listed(MARKS, why)]


class TickMarks:
    """All marks, read once. Thread-safe."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._keys: Sequence[str] | None = None
        self._lock = threading.Lock()

    def of(self, why: Mark) -> list[str]:
        """What is marked. Raises Unavailable."""
        with self._lock:
            if self._keys is None:
                self._keys = [record.key for record in self._services.records.listed(MARKS, "~")]
        return [key.removeprefix(why) for key in self._keys if key.startswith(why)]
