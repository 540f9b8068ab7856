"""Where events go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from minutehand.domain.history.run_event import RunEvent


class EventSink(Protocol):
    """A bus, a topic or a webhook."""

    @property
    def types(self) -> frozenset[str]:
        """The types of events that it wants."""

    def publish(self, events: Sequence[RunEvent]) -> None:
        """Send events, at least once each. Raises Unavailable and Misconfigured: some may be sent, send all again.

        Raises EventRefused where the receiver will never take one of them.
        """
