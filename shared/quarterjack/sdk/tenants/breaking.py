"""The SDK for the circuit breakers of tenants: list those that are open or count failures, and close them by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from quarterjack.domain.names import check_tenant
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.times import MINUTE, from_ms
from quarterjack.errors import InvalidInput
from quarterjack.fires.breakers import read_breakers
from quarterjack.fires.context import FireContext
from quarterjack.owner.breakers import reset
from quarterjack.sdk.session import Session
from quarterjack.state.tenants.breaker import Breaker


@dataclass(frozen=True, kw_only=True)
class BreakerView:
    """A circuit breaker that is open, or counts the attempts of a job that fails."""

    job: str  # "*": all jobs of the tenant together
    is_open: bool  # whether its runs wait, but for probes
    opened_at: datetime | None  # UTC
    per_minute: int | None  # runs that are let through in this minute; None: it is closed
    counted_since: datetime  # UTC; the attempts below ended since then
    succeeded: int  # attempts; of an open breaker those of this minute, of a closed one those of five minutes
    failed: int  # likewise


class BreakerMethods:
    """Circuit breakers: the limit ``breaker_percent`` gives a tenant one for each job, and one for all its jobs together."""

    session: Session

    @property
    def _context(self) -> FireContext:
        raise NotImplementedError

    def _permit(self, verb: Verb, tenant: str) -> None:
        raise NotImplementedError

    def breakers(self, tenant: str) -> Sequence[BreakerView]:
        """The breakers of a tenant that are open or count failures, by job. Raises InvalidInput, Forbidden, Unavailable."""
        holder = check_tenant(tenant)
        self._permit(Verb.READ_TENANT, holder)
        found, _ = read_breakers(holder, self.session.services)
        return [_view(job, found.jobs[job]) for job in sorted(found.jobs)]

    def reset_breaker(self, tenant: str, job: str | None = None) -> Sequence[str]:
        """Close the breaker of a job (``"*"``: that of all jobs together), or all of a tenant: what waits starts within three minutes.

        It counts anew, and opens again if the job still fails. Returns the names of those that were open. Raises InvalidInput, NotFound
        (the job has no open breaker), Conflict, Forbidden, Unavailable.
        """
        holder = check_tenant(tenant)
        if job is not None and (not isinstance(job, str) or not job):
            raise InvalidInput(
                "job", job, "is not the name of a job", "use the `job` of a listed breaker, or None for all"
            )
        self._permit(Verb.MANAGE_TENANTS, holder)
        return reset(holder, job, self._context)


def _view(job: str, breaker: Breaker) -> BreakerView:
    opened, windows = breaker.opened_at, breaker.windows
    since = breaker.since if opened is not None else windows[0][0] * MINUTE
    return BreakerView(
        job=job,
        is_open=breaker.is_open,
        opened_at=None if opened is None else from_ms(opened),
        per_minute=None if opened is None else breaker.rate,
        counted_since=from_ms(since),
        succeeded=breaker.succeeded if breaker.is_open else sum(succeeded for _, succeeded, _ in windows),
        failed=breaker.failed if breaker.is_open else sum(failed for _, _, failed in windows),
    )
