"""The index of dead runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from minutehand.domain.dead_run import DeadRunRow
from minutehand.state.conditions import Condition


class DeadIndex(Protocol):
    """Which runs are dead: a line a run, written by the undertaker alone, so that only dead runs pay for it."""

    def put(self, dead: DeadRunRow, *, expires: int) -> bool:
        """Put a line until ``expires`` (UTC ms); False, and nothing written, if it is there."""

    def read(
        self, tenant: str, *, after: int, upto: int, only: Condition | None, before: str | None, page: int | None
    ) -> Iterator[DeadRunRow]:
        """A tenant's runs that died in ``(after, upto]`` (UTC ms), newest first, read as far as they are asked for.

        ``only``: those whose line meets it. ``before``: those beyond this key. ``page``: lines of one query (None: as many as fit).
        """

    def mark(self, dead: DeadRunRow, *, redriven_as: str) -> bool:
        """Note the id of the run that repeats it; False if the line is gone."""

    def remove(self, dead: Sequence[DeadRunRow]) -> frozenset[str]:
        """Delete lines; the keys that were accepted."""
