"""SNS topics in memory: a list of publications."""

from __future__ import annotations

from typing import NamedTuple

from minutehand.domain.notice import Notice
from minutehand.testing.memory.calls import Calls


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
