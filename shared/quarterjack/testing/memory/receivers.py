"""Topics and a receiver of events in memory: they keep what they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from quarterjack.domain.history.outgoing_event import EVENT_TYPES, OutgoingEvent
from quarterjack.domain.notice import Notice
from quarterjack.ports.receivers import FailedEvents
from quarterjack.testing.memory.calls import Calls


class Published(NamedTuple):
    """One publication."""

    topic: str  # its ARN
    notice: Notice


class MemoryNotices:
    """Topics as one process sees them; every ARN is a topic."""

    def __init__(self, calls: Calls, published: list[Published]) -> None:
        self._calls, self._published = calls, published

    def publish(self, topic: str, notice: Notice) -> None:
        published = Published(topic, notice)
        self._calls.one("Publish", "topics", "publish", lambda: self._published.append(published), topic)


class MemoryEvents:
    """A receiver of events, which takes all of them."""

    types = EVENT_TYPES

    def __init__(self) -> None:
        self.taken: list[OutgoingEvent] = []  # in order, as often as they were sent

    def publish(self, events: Sequence[OutgoingEvent]) -> FailedEvents:
        self.taken += events
        return {}
