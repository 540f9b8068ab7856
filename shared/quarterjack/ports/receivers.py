"""Receivers of notices and of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from quarterjack.domain.history.outgoing_event import OutgoingEvent
from quarterjack.domain.notice import Notice
from quarterjack.errors import EventFailed, EventRefused


class Notices(Protocol):
    """SNS topics to which owners of schedules subscribe."""

    def publish(self, topic: str, notice: Notice) -> None:
        """Publish to an SNS topic by its ARN."""


FailedEvents = Mapping[str, EventFailed | EventRefused]  # by the events' ids


class EventSink(Protocol):
    """A bus, a topic or a webhook."""

    @property
    def types(self) -> frozenset[str]:
        """The types of events that it wants."""

    def publish(self, events: Sequence[OutgoingEvent]) -> FailedEvents:
        """Send events, at least once each; returns those that were not taken, while all others were.

        Raises Unavailable and Misconfigured: some may be sent, send all again.
        """
