"""Payloads too large for a message."""

from __future__ import annotations

from typing import Protocol


class Payloads(Protocol):
    """Payloads too large for a message."""

    def put(self, tenant: str, text: str) -> str:
        """Store JSON text; its key."""

    def keep(self, tenant: str, text: str) -> str:
        """Store what a worker leaves, a result or checkpoint, as JSON text; its key."""

    def get(self, key: str) -> str:
        """The JSON text behind a key."""
