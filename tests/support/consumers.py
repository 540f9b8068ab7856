"""Consumers of the stream for tests: what they were given, and errors when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from quarterjack.domain.history.run_change import RunChange
from quarterjack.historian.context import HistorianContext


@dataclass
class Consumer:
    """Keeps what it handled. ``fails`` gives the error for a batch that has a change which it refuses."""

    fails: Callable[[RunChange], Exception | None] = lambda change: None
    batches: list[tuple[str, list[int]]] = field(default_factory=list)  # name of the batch, sequence numbers

    def __call__(self, changes: Sequence[RunChange], context: HistorianContext) -> None:
        for change in changes:
            problem = self.fails(change)
            if problem is not None:
                raise problem
        self.batches.append((context.batch, [change.sequence for change in changes]))

    @property
    def handled(self) -> list[int]:
        """The sequence numbers, in order, as often as they were handled."""
        return [number for _, numbers in self.batches for number in numbers]
