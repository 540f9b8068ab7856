"""Topics that owners of schedules listen to."""

from __future__ import annotations

from typing import Protocol

from minutehand.domain.notice import Notice


class Notices(Protocol):
    """Topics that owners of schedules listen to."""

    def publish(self, topic: str, notice: Notice) -> None:
        """Publish to an SNS topic (its ARN). Raises Unavailable, Misconfigured."""
