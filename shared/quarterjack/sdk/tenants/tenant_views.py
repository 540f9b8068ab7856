"""What operators see of a tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from quarterjack.domain.tenants.limits import LimitValue
from quarterjack.domain.tenants.profile import Grant, TenantProfile, TenantState
from quarterjack.domain.times import from_ms


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """A tenant's profile; that of ``~installation`` holds for tenants without one."""

    name: str
    state: TenantState
    jobs: (
        Sequence[str] | None
    )  # names and patterns of the jobs that it may run; None: those of the installation, or all
    grants: Sequence[Grant]  # who may do what
    tier: str | None  # whose jobs, queue and limits count where it has none of its own
    queue: (
        str | None
    )  # of runs for which neither job nor caller names one; None: the installation's, or the default queue
    limits: Mapping[str, LimitValue]  # its own, by name; the installation's count for what is not here
    description: str | None  # whose it is
    suspension_reason: str | None  # why it is suspended
    version: int  # counts the changes
    created_at: datetime  # UTC
    updated_at: datetime  # UTC


def tenant_view(profile: TenantProfile) -> Tenant:
    """The public form of a profile."""
    return Tenant(
        name=profile.tenant,
        state=profile.state,
        jobs=profile.jobs,
        grants=profile.grants,
        tier=profile.tier,
        queue=profile.queue,
        limits=profile.limits.given(),
        description=profile.description,
        suspension_reason=profile.suspension_reason,
        version=profile.version,
        created_at=from_ms(profile.created_at),
        updated_at=from_ms(profile.updated_at),
    )
