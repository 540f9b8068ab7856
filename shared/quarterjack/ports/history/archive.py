"""The archive's objects: compressed lines, by the keys of ``domain.archive_keys``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class OriginalObject:
    """An object as it was put first, where the bucket keeps older versions; else as it is."""

    key: str
    content: bytes | None  # None: it is gone meanwhile
    changes: int = 0  # times that it was replaced or removed since, as far as the bucket knows


class Archive(Protocol):
    """Objects of the archive, in a bucket."""

    @property
    def is_on(self) -> bool:
        """Whether there is a bucket to archive to."""

    def put(self, objects: Mapping[str, bytes]) -> None:
        """Store objects by their keys, in place of those that have these keys. Raises Unavailable: some may be stored."""

    def put_new(self, key: str, content: bytes) -> bool:
        """Store an object; False, and nothing is stored, if one has that key. Raises Unavailable."""

    def keys(self, prefix: str, *, after: str, before: str) -> Iterator[str]:
        """The keys that begin with ``prefix`` and lie between the two, in their order."""

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        """The objects of these keys, in their order; None for one that is gone."""

    def originals(self, prefix: str) -> Iterator[OriginalObject]:
        """The objects whose keys begin with ``prefix`` as they were put first, also those that were removed, in order of their keys."""

    def remove(self, keys: Sequence[str]) -> None:
        """Remove objects. Raises Unavailable."""
