"""What was done to the processes of a siege: the evidence that explains why a run started twice, and the timeline of a failure."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Blow:
    """One process was kept from its work."""

    kind: str  # killed, asked to end, stopped, cut off, held up …
    process: str  # its name
    at: float  # UTC seconds
    until: float  # UTC seconds; ``at`` for what takes no time

    @property
    def seconds(self) -> float:
        return self.until - self.at


class Journal:
    """Written by the proxies, the tormentor and the owners at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.blows: list[Blow] = []
        self.faults: Counter[str] = Counter()  # injected into requests, by kind
        self.refusals: list[str] = []  # calls of owners that ended otherwise than they may
        self._lines: list[tuple[float, str]] = []

    def strike(self, kind: str, process: str, seconds: float = 0.0) -> None:
        """A process is kept from its work from now on, for so long."""
        now = time.time()
        with self._lock:
            self.blows.append(Blow(kind=kind, process=process, at=now, until=now + seconds))
        self.tell(f"{process} {kind}" + (f" for {seconds:.1f} s" if seconds else ""))

    def count(self, kind: str, process: str, what: str) -> None:
        """A request was interfered with."""
        with self._lock:
            self.faults[str(kind)] += 1
        self.tell(f"{process} {what}: {kind}")

    def refuse(self, text: str) -> None:
        """An owner's call was refused for no reason."""
        with self._lock:
            self.refusals.append(text)
        self.tell(text)

    def tell(self, text: str) -> None:
        with self._lock:
            self._lines.append((time.time(), text))

    def timeline(self) -> list[tuple[float, str]]:
        """All of it: UTC seconds and what happened."""
        with self._lock:
            return list(self._lines)
