"""Handle one batch of the stream: each consumer in turn. A batch may be delivered again, so each consumer's effects are repeatable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from minutehand.domain.run_change import RunChange
from minutehand.ports.services import Services


@dataclass(frozen=True, kw_only=True)
class HistorianContext:
    """The services and the batch that is being handled."""

    services: Services
    now: int  # UTC ms
    batch: str  # names the batch: shard of the stream and first sequence number; the same when this batch is delivered again


Consumer = Callable[[Sequence[RunChange], HistorianContext], None]

CONSUMERS: tuple[Consumer, ...] = ()  # in this order


def handle(changes: Sequence[RunChange], context: HistorianContext) -> None:
    """Pass the changes to every consumer. Raises what a consumer raises: the batch is then delivered again, in halves."""
    for consume in CONSUMERS:
        consume(changes, context)
