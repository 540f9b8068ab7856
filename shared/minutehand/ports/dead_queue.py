"""The dead-letter queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from minutehand.domain.formats.dead_letter import DeadLetter
from minutehand.ports.work_queue import RawMessage


class DeadQueue(Protocol):
    """The dead-letter queue."""

    def send(self, letter: DeadLetter) -> None:
        """Send a verdict."""

    def receive(self, *, most: int, wait: float) -> Sequence[RawMessage]:
        """Up to ``most`` dead letters."""

    def delete(self, receipt: str) -> None:
        """Delete a recorded letter."""
