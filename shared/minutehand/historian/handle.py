"""Handle one batch of the stream: each consumer in turn. A batch may be delivered again, so each consumer's effects are repeatable.

The stream has two readers, each with a position of its own: a receiver of events that does not answer must not hold up the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from minutehand.domain.history.run_change import RunChange
from minutehand.historian.archive import archive
from minutehand.historian.context import Consumer, HistorianContext
from minutehand.historian.events import publish_events
from minutehand.historian.pages import write_pages

CONSUMERS: tuple[Consumer, ...] = (write_pages, archive)  # in this order
EVENT_CONSUMERS: tuple[Consumer, ...] = (publish_events,)


class Reader(StrEnum):
    """Who reads the stream."""

    HISTORY = "history"  # pages and archive
    EVENTS = "events"  # events, where a target is configured


def consumers_of(reader: Reader) -> tuple[Consumer, ...]:
    """The consumers to which a reader delivers."""
    return EVENT_CONSUMERS if reader is Reader.EVENTS else CONSUMERS


def handle(changes: Sequence[RunChange], context: HistorianContext) -> None:
    """Pass the changes to every consumer. Raises what a consumer raises: the batch is then delivered again, in halves."""
    for consume in CONSUMERS:
        consume(changes, context)
