"""Notifications."""

from __future__ import annotations

from typing import Protocol

from quarterjack.domain.notice import Notice


class Notices(Protocol):
    """SNS topics to which owners of schedules subscribe."""

    def publish(self, topic: str, notice: Notice) -> None:
        """Publish to an SNS topic by its ARN."""
