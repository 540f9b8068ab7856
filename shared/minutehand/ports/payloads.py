"""Large payloads and results, in the bucket."""

from __future__ import annotations

from typing import Protocol


class Payloads(Protocol):
    """JSON texts too large for a message or a row, by keys that follow from their content."""

    def put(self, tenant: str, text: str) -> str:
        """Store a payload and return its key. Raises InvalidInput if there is no bucket."""

    def keep(self, tenant: str, text: str) -> str:
        """Store a result or checkpoint and return its key. Raises InvalidInput if there is no bucket."""

    def get(self, key: str) -> str:
        """The text of a key. Raises NotFound."""
