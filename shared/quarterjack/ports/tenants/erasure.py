"""The data of one tenant: found in every table, and in the buckets' folders; and where its erasure stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from quarterjack.domain.audit import AuditLineRow
from quarterjack.domain.tenants.erasure import Erasure, ErasurePlace, SweepRules, Swept
from quarterjack.domain.tenants.profile import TenantProfile


class ErasureStore(Protocol):
    """Erasures, and the rows of tenants in the tables."""

    def gone(self, now: int) -> frozenset[str]:
        """The tenants whose erasure has begun or ended, read at most 5 s before ``now`` (UTC ms). Raises Unavailable."""

    def read(self, tenant: str) -> Erasure | None:
        """The erasure of a tenant as it is stored; None if there is none. Raises Unavailable, Unreadable."""

    def write(self, erasure: Erasure, profile: TenantProfile, line: AuditLineRow) -> bool:
        """One transaction: an erasure and a profile over the versions that were read, the tenant among those that are gone, and the
        act's line. False, and nothing is written, if one of the two has changed. Raises Unavailable.
        """

    def save(self, erasure: Erasure) -> bool:
        """Put an erasure over the version that was read; False, and nothing is written, if it has changed. Raises Unavailable."""

    def sweep(self, place: ErasurePlace, cursors: Sequence[str | None], rules: SweepRules) -> Swept:
        """Read a page of each part of a table, and remove what is the tenant's. Raises Unavailable: repeat it with the same cursors."""


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
