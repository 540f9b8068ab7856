"""What every consumer of the stream is given: the services, and the batch that is being handled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quarterjack.domain.history.run_change import RunChange, StreamChange
from quarterjack.ports.services import Services


@dataclass(frozen=True, kw_only=True)
class HistorianContext:
    """The services and the batch that is being handled."""

    services: Services
    now: int  # UTC ms
    batch: str  # names the batch: shard of the stream and first sequence number; the same when this batch is delivered again


# Each returns how many changes it set aside itself.
Consumer = Callable[[Sequence[RunChange], HistorianContext], int | None]
EventConsumer = Callable[[Sequence[StreamChange], HistorianContext], int | None]
