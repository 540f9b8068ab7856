"""Small JSON documents beside an owner's runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class Record:
    """A small JSON document beside an owner's runs. Its version decides races; its key begins with ``~``."""

    owner: str  # "tenant/name", or "tenant/~word" for what is the tenant's
    key: str  # "~slot", "~backfill~id" …
    version: int  # 1, 2, 3 …
    body: Mapping[str, Any]  # JSON-able
    expires: int | None = None  # UTC ms after which it may go


class Records(Protocol):
    """What the flow has to remember beside runs: who holds a slot, how far a backfill is, what a client token stands for."""

    def read(self, owner: str, key: str) -> Record | None:
        """One, read strongly."""

    def write(self, record: Record) -> bool:
        """Put it if the version there is one less (version 1: if nothing is there). True as well if it is there just so already."""

    def remove(self, record: Record) -> bool:
        """Delete it if it still has this version; True as well if it is gone already."""

    def listed(self, owner: str, prefix: str) -> Iterator[Record]:
        """Those whose keys begin so, in order of key, read strongly."""
