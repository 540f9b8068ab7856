"""Large payloads and results, in the bucket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from quarterjack.domain.payload import PayloadOwner


@dataclass(frozen=True)
class KeptObjects:
    """What one request finds of the objects of a tenant."""

    objects: int
    bytes: int
    recent: int  # bytes of payloads among these that were stored since the given instant
    cursor: str | None  # beyond which the next ones are; None: these were the last


class Payloads(Protocol):
    """JSON texts too large for a row. The key of a payload names the run or the schedule whose it is."""

    def put(self, whose: PayloadOwner, text: str) -> str:
        """Store a payload under a new key, which is returned. Raises InvalidInput if there is no bucket."""

    def keep(self, tenant: str, text: str) -> str:
        """Store a result or checkpoint and return its key. Raises InvalidInput if there is no bucket."""

    def get(self, tenant: str, key: str) -> str:
        """The text of a key of this tenant's. Raises NotFound, also for one of another tenant, whatever the row that names it says."""

    def stored(self, *, after: str, before: int) -> Iterator[str]:
        """Keys of payloads that were stored ``before`` (UTC ms), in their order, from beyond ``after`` on. Not those of others' making."""

    def remove(self, keys: Sequence[str]) -> None:
        """Remove payloads. Raises Unavailable."""

    def kept(self, tenant: str, *, after: str | None, since: int) -> KeptObjects:
        """The next up to 1,000 payloads, results and checkpoints of a tenant; ``since`` in UTC ms.

        Raises Unavailable, Misconfigured (it may not list them).
        """
