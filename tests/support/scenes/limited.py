"""Worlds whose tenants have limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quarterjack import Scheduler
from quarterjack.domain.tenants.limits import TenantLimits
from quarterjack.domain.tenants.profile import TenantProfile
from quarterjack.sdk.session import over

from tests.support.scenes.world import Faults, World


def limit(world: World, tenant: str = "acme", **limits: Any) -> None:
    """Give a tenant these limits, and no others."""
    store = world.services.tenants
    present = store.profile(tenant)
    profile = TenantProfile(tenant=tenant, limits=TenantLimits(**limits))
    assert store.put(profile, expected=0 if present is None else present.version)


def impatient(world: World, faults: Faults | None = None) -> Scheduler:
    """A process whose calls never wait."""
    owner = world.owner(faults)
    return over(owner, replace(owner.session, patience=0.0))
