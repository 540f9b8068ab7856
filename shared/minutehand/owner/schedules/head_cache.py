"""Read-through cache for bulk calls: the first read of each schedule comes from the listing, later ones from the table.

A change of a schedule is conditional on its head. If the head moved after the listing, the transaction is refused and the head is read
again; while the head stays, its current revision stays. The cache must not be used for acts without a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from minutehand.domain.schedule import Head, Revision
from minutehand.ports.schedules import RevisionBatch, RevisionKey, ScheduleStore
from minutehand.ports.services import Services


class HeadCache:
    """A ``ScheduleStore`` that knows some heads and their revisions. Thread-safe."""

    def __init__(self, schedules: ScheduleStore, heads: Iterable[Head]) -> None:
        self._schedules = schedules
        self._heads = {(head.tenant, head.name): head for head in heads}
        keys = [(head.owner, head.revision) for head in self._heads.values()]
        self._revisions: dict[RevisionKey, Revision] = dict(schedules.revisions(keys).found) if keys else {}

    def head(self, tenant: str, name: str) -> Head | None:
        known = self._heads.pop((tenant, name), None)
        return self._schedules.head(tenant, name) if known is None else known

    def revisions(self, keys: Iterable[RevisionKey]) -> RevisionBatch:
        wanted = set(keys)
        known = {key: found for key in wanted if (found := self._revisions.pop(key, None)) is not None}
        if len(known) == len(wanted):
            return RevisionBatch(found=known)
        answer = self._schedules.revisions(wanted - known.keys())
        return replace(answer, found={**known, **answer.found})

    def __getattr__(self, name: str) -> Any:
        """All other calls go to the store."""
        return getattr(self._schedules, name)


def with_head_cache(services: Services, heads: Sequence[Head]) -> Services:
    """Services that answer the first read of these heads, and of their current revisions, without a request. Raises Unavailable."""
    schedules: Any = HeadCache(services.schedules, heads)
    return replace(services, schedules=schedules)
