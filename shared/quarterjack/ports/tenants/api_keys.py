"""API keys of tenants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quarterjack.domain.audit import AuditLineRow
from quarterjack.domain.tenants.api_key import ApiKey


class ApiKeyStore(Protocol):
    """What is stored of keys. A process remembers a key that it has read, for 5 s; thread-safe."""

    def key(self, tenant: str, name: str, slot: int, now: int) -> ApiKey | None:
        """A key, read at most 5 s before ``now`` (UTC ms, by the caller's clock); None if there is none. Raises Unavailable."""

    def keys(self, tenant: str) -> Sequence[ApiKey]:
        """All keys of a tenant as they are stored now, by name. Raises Unavailable."""

    def put(self, key: ApiKey, line: AuditLineRow) -> bool:
        """One transaction: put a key, and the line of the act. False, and nothing is written, if its slot has a key that is valid.

        Raises Unavailable.
        """

    def revoke(self, key: ApiKey, line: AuditLineRow) -> bool:
        """One transaction: remove a key, and the line of the act. False, and nothing is written, if its slot has another one or none.

        This process takes it no more from then on, the others within 5 s. Raises Unavailable.
        """

    def mark_used(self, key: ApiKey, day: int) -> None:
        """Note the day (since 1970, UTC) of its last use. Raises Unavailable."""
