"""The dead-letter queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quarterjack.domain.message import DeadLetter
from quarterjack.ports.work_queue import RawMessage


class DeadQueue(Protocol):
    """The dead-letter queue, as the undertaker and the workers use it."""

    def send(self, letter: DeadLetter) -> None:
        """Send a dead letter."""

    def receive(self, *, most: int, wait: float) -> Sequence[RawMessage]:
        """Up to ``most`` dead letters (10 at most), after at most ``wait`` seconds (20 at most) for the first."""

    def delete(self, receipt: str) -> None:
        """Delete a received letter; one that is deleted already is no error."""
