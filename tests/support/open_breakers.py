"""An open circuit breaker, as workers write it."""

from __future__ import annotations

from collections.abc import Mapping

from quarterjack.domain.times import MINUTE
from quarterjack.fires.breakers import change_breakers
from quarterjack.ports.services import Services
from quarterjack.state.tenants.breaker import LEAST, WINDOWS, TenantBreakers

FEW = tuple(
    f"few{n}" for n in range(LEAST // WINDOWS)
)  # jobs of which each fails too seldom to have a breaker of its own


def open_breaker(tenant: str, job: str, services: Services, now: int) -> TenantBreakers:
    """The breaker of a job: its failures in each of the last five minutes before ``now`` (UTC ms)."""
    return _fails(tenant, {job: LEAST}, services, now)


def open_breaker_of_all(tenant: str, services: Services, now: int) -> TenantBreakers:
    """The breaker of all jobs together: failures of several jobs that have no breaker of their own."""
    found = _fails(tenant, dict.fromkeys(FEW, 1), services, now)
    for job in FEW:  # what they count is of no interest
        found = change_breakers(tenant, lambda one: one.without(job, now), services)  # noqa: B023 (called at once)
    return found


def _fails(tenant: str, failures: Mapping[str, int], services: Services, now: int) -> TenantBreakers:
    found = TenantBreakers()
    for ago in reversed(range(WINDOWS)):
        at = now - ago * MINUTE
        counts = [(job, at // MINUTE, 0, failed) for job, failed in failures.items()]
        found = change_breakers(tenant, lambda one: one.counted(counts, now=at, percent=90), services)  # noqa: B023 (called at once)
    return found
