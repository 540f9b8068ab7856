"""Hints: what a tick has to know of tenants before it knows of whom its entries are. One query for all, once a tick.

A hint (``state/tenants/hints.py``) is put by whoever finds its reason and removed by the ticker when there is none any more:
in between nothing is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from quarterjack.ports.services import Services
from quarterjack.state.tenants.hints import HINTS, Hint
from quarterjack.stores.records import Record


def put_hint(why: Hint, name: str, services: Services) -> None:
    """Put a hint, unless it is there. Raises Unavailable."""
    services.records.write(Record(owner=HINTS, key=f"{why}{name}", version=1, body={}))


def remove_hint(why: Hint, name: str, services: Services) -> None:
    """Remove a hint. Raises Unavailable."""
    services.records.remove(Record(owner=HINTS, key=f"{why}{name}", version=1, body={}))


def hinted(why: Hint, services: Services) -> list[str]:
    """The names that hints of this kind have. Raises Unavailable."""
    return [record.key.removeprefix(why) for record in services.records.listed(HINTS, why)]


class TickHints:
    """All hints, read once. Thread-safe."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._keys: Sequence[str] | None = None
        self._lock = threading.Lock()

    def of(self, why: Hint) -> list[str]:
        """The names that hints of this kind have. Raises Unavailable."""
        with self._lock:
            if self._keys is None:
                self._keys = [record.key for record in self._services.records.listed(HINTS, "~")]
        return [key.removeprefix(why) for key in self._keys if key.startswith(why)]
