"""What all parts of ``Tenants`` use: the check of the caller, and a tenant's profile as operators see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.limits import LimitValue
from quarterjack.domain.tenants.profile import Grant, TenantProfile, TenantState
from quarterjack.fires.context import FireContext
from quarterjack.sdk.session import Connected
from quarterjack.sdk.views import view_of


class TenantsBase(Connected):
    """The connections of an installation, and its caller as an operator."""

    def _permit(self, verb: Verb, tenant: str, *, what: str | None = None) -> None:
        """Raises Forbidden unless the caller has a verb for a tenant. ``what``: the object of the call, if it is not the whole tenant."""
        self.session.gate.check(tenant, self.session.caller, verb, what=what)

    @property
    def _context(self) -> FireContext:
        return self.session.context()


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
    return view_of(Tenant, profile, name=profile.tenant, limits=profile.limits.given())
