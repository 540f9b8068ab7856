"""Topics in memory: what was published to them, in order."""

from __future__ import annotations

from typing import NamedTuple

from minutehand.domain.notice import Notice
from minutehand.testing.memory.calls import Calls, Detail


class Published(NamedTuple):
    """One publication."""

    topic: str  # its ARN
    notice: Notice


class MemoryNotices:
    """Topics as one process sees them; every ARN is one."""

    def __init__(self, calls: Calls, published: list[Published]) -> None:
        self._calls, self._published = calls, published

    def publish(self, topic: str, notice: Notice) -> None:
        detail = Detail(place="topics", verb="publish", items=(topic,))
        self._calls.one("Publish", detail, lambda: self._published.append(Published(topic, notice)))
