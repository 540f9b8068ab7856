"""Large payloads and results, in the bucket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from minutehand.domain.names import RunRef


class Payloads(Protocol):
    """JSON texts too large for a row, by keys that follow from their content, or from the one run whose they are."""

    def put(self, tenant: str, text: str, run: RunRef | None = None) -> str:
        """Store a payload and return its key; ``run``: it is this run's own. Raises InvalidInput if there is no bucket."""

    def keep(self, tenant: str, text: str) -> str:
        """Store a result or checkpoint and return its key. Raises InvalidInput if there is no bucket."""

    def get(self, key: str) -> str:
        """The text of a key. Raises NotFound."""

    def of_runs(self, *, after: str, before: int) -> Iterator[str]:
        """Keys of payloads that are single runs' own and were stored ``before`` (UTC ms), in their order, from beyond ``after`` on."""

    def remove(self, keys: Sequence[str]) -> None:
        """Remove payloads. Raises Unavailable."""
