"""Schedules as they were just read, many at once: the first question about each is answered from that, every further one anew.

Whoever changes a schedule does so on condition that its head has not moved. So a head that has moved since it was read costs a
refused transaction, after which it is read again; and while a head stands still, so does its current revision. It must not be used
for what may end without a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from minutehand.domain.schedule import Head, Revision
from minutehand.ports.schedules import RevisionBatch, RevisionKey, ScheduleStore
from minutehand.ports.services import Services


class HeadCache:
    """``flow.ports.Schedules`` with answers in stock. May be asked by several threads."""

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
        """Everything else is asked as ever."""
        return getattr(self._schedules, name)


def foreseen(services: Services, heads: Sequence[Head]) -> Services:
    """Services that know these heads and their current revisions. Raises Unavailable."""
    schedules: Any = HeadCache(services.schedules, heads)
    return replace(services, schedules=schedules)
