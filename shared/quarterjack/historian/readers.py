"""The readers of the stream and their consumers. A batch may be delivered again, so each consumer's effects are repeatable.

The stream has two readers, each with a position of its own: a receiver of events that does not answer must not hold up the history.
"""

from __future__ import annotations

from enum import StrEnum

from quarterjack.historian.archive import archive
from quarterjack.historian.context import Consumer, EventConsumer
from quarterjack.historian.events import publish_events
from quarterjack.historian.pages import write_pages

CONSUMERS: tuple[Consumer, ...] = (write_pages, archive)  # of changes of runs, in this order
EVENT_CONSUMERS: tuple[EventConsumer, ...] = (publish_events,)  # of notices, too


class Reader(StrEnum):
    """Who reads the stream."""

    HISTORY = "history"  # pages and archive
    EVENTS = "events"  # events, where a target is configured
