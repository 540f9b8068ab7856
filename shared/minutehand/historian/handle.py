"""Handle one batch of the stream: each consumer in turn. A batch may be delivered again, so each consumer's effects are repeatable."""

from __future__ import annotations

from collections.abc import Sequence

from minutehand.domain.run_change import RunChange
from minutehand.historian.archive import archive
from minutehand.historian.context import Consumer, HistorianContext
from minutehand.historian.pages import write_pages

CONSUMERS: tuple[Consumer, ...] = (write_pages, archive)  # in this order


def handle(changes: Sequence[RunChange], context: HistorianContext) -> None:
    """Pass the changes to every consumer. Raises what a consumer raises: the batch is then delivered again, in halves."""
    for consume in CONSUMERS:
        consume(changes, context)
