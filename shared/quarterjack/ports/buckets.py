"""Objects in buckets: large payloads, the archive, and all versions of a tenant's objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


@dataclass(frozen=True, kw_only=True)
class ObjectVersion:
    """A version of an object, or a mark of removal."""

    key: str
    version: str  # "null" in a bucket without versions
    is_latest: bool = True  # an older version is read by nobody
    is_marker: bool = False


@dataclass(frozen=True, kw_only=True)
class ObjectPage:
    """Some versions in order of their keys."""

    versions: Sequence[ObjectVersion]
    cursor: str | None  # None at the end


@dataclass(frozen=True, kw_only=True)
class Lock:
    """Why an object was not removed."""

    object: ObjectVersion
    until: int | None  # UTC ms; None: a legal hold, which has no end


class ObjectVersions(Protocol):
    """All versions of the objects of both buckets, by what their keys begin with."""

    def page(self, prefix: str, cursor: str) -> ObjectPage:
        """Up to 1,000 versions from beyond ``cursor`` (empty: from the first) on; none if there is no such bucket. Raises Unavailable."""

    def read(self, each: ObjectVersion) -> bytes | None:
        """The content of a version; None if it is gone."""

    def remove(self, versions: Sequence[ObjectVersion]) -> Sequence[Lock]:
        """Remove versions for good, but those that a lock keeps. Raises Unavailable, and Misconfigured where this role may not."""
