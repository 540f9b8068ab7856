"""A freeze: until its end nothing of a tenant starts."""

from __future__ import annotations

from dataclasses import dataclass

from minutehand.domain.names import schedule_owner

_FROZEN = "~tenant"  # not a valid name of a schedule


@dataclass(frozen=True, kw_only=True)
class Freeze:
    """A stop of all starts of a tenant, schedules and one-offs alike."""

    tenant: str
    until: int  # UTC ms at which it ends
    note: str | None = None  # the owner's reason
    created_at: int = 0  # UTC ms


def freeze_key(tenant: str) -> tuple[str, int]:
    """The key of a tenant's freeze. It is in the table of revisions, so that a worker reads both in one batch."""
    return schedule_owner(tenant, _FROZEN), 0


def is_freeze(key: tuple[str, int]) -> bool:
    """Whether a key among the revisions is a freeze's."""
    return key[1] == 0
