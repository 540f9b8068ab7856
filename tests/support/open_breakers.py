"""An open circuit breaker, as workers write it."""

from __future__ import annotations

from quarterjack.domain.times import MINUTE
from quarterjack.fires.breakers import change_breakers
from quarterjack.ports.services import Services
from quarterjack.state.tenants.breaker import LEAST, WINDOWS, TenantBreakers


def open_breaker(tenant: str, job: str, services: Services, now: int) -> TenantBreakers:
    """Count failures of a job in each of the last five minutes before ``now`` (UTC ms)."""
    found = TenantBreakers()
    for ago in reversed(range(WINDOWS)):
        at = now - ago * MINUTE
        counts = [(job, at // MINUTE, 0, LEAST)]
        found = change_breakers(tenant, lambda one: one.counted(counts, now=at, percent=90), services)  # noqa: B023 (called at once)
    return found
