"""A freeze: until its end nothing of a tenant starts."""

from __future__ import annotations

from dataclasses import dataclass

from minutehand.domain.names import schedule_owner

_FROZEN = "~tenant"  # no schedule's name


@dataclass(frozen=True, kw_only=True)
class Freeze:
    """A stop of all starts of a tenant, schedules and one-offs alike."""

    tenant: str  # whose
    until: int  # UTC ms at which it ends by itself
    note: str | None = None  # why
    created_at: int = 0  # UTC ms


def freeze_key(tenant: str) -> tuple[str, int]:
    """Where a tenant's freeze lies: among the revisions, so that a worker reads it in one batch with them."""
    return schedule_owner(tenant, _FROZEN), 0


def is_freeze(key: tuple[str, int]) -> bool:
    """Whether a key among the revisions is a freeze's."""
    return key[1] == 0
