"""Methods of ``Tenants`` about how one does: its figures, computed when they are asked for without a scan, and its circuit breakers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from quarterjack.domain.names import check_tenant, check_whole
from quarterjack.domain.run import FAILED
from quarterjack.domain.schedule import Head, ScheduleState
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.limits import JOB_CAP, LimitValue, QuotaWord, RateWord, TenantLimits
from quarterjack.domain.times import MINUTE, SECOND, from_ms
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.fires.breakers import read_breakers
from quarterjack.fires.context import FAR
from quarterjack.fires.flow.wait_queue import permits_of
from quarterjack.fires.waits import is_unstarted, last_fire
from quarterjack.owner.tenants import reset
from quarterjack.ports.services import Services
from quarterjack.sdk.tenants.base import TenantsBase
from quarterjack.state.backpressure import UNSTARTED
from quarterjack.state.tenants.breaker import Breaker
from quarterjack.state.tenants.caps import ALL, ConcurrencyCap
from quarterjack.state.tenants.permits import CapPermits

_MINUTES = 5
_MOST_MINUTES = 60
_MOST_WAITING = 500  # runs that are counted
_SAMPLE = 20  # schedules whose last due run is read


# Flat, because tables of the command line and JSON of the API name its fields.
@dataclass(frozen=True, kw_only=True)
class TenantFigures:
    """What a tenant does, and what it has left of its limits."""

    tenant: str
    since: (
        datetime  # UTC: the runs that ended later are counted; later than was asked for if there are too many to read
    )
    until: datetime  # UTC: now
    outcomes: Mapping[str, int]  # these runs by state; missed fires that were passed over are SKIPPED
    started_per_minute: float  # of these runs, those that started
    failed_share: float | None  # of these runs, those that are DEAD, LOST or EXPIRED; None: none ended
    lateness_p50: float | None  # seconds from due to the first start, to about 9 %; None: none of these started
    lateness_p99: float | None  # the same
    waiting: int  # runs but fires that are due and wait for a worker, as far as they were counted
    waiting_is_whole: bool  # False: there are more
    schedules_sampled: int  # active schedules whose last due fire was looked at, 20 at the most
    schedules_waiting: int  # of these, those whose fire has waited for 30 s or more
    limits: Mapping[str, LimitValue]  # that hold for it, the installation's included
    tokens: Mapping[
        str, int
    ]  # acts that its rates would let through now, by limit: processes have leased some for a second
    schedules: (
        int | None
    )  # counted against ``schedules``, as of the last count; None: not counted, as there is no such limit
    fires_per_hour: int | None  # the same: of all these, each in its densest hour
    waiting_runs: (
        int | None
    )  # counted against ``waiting_runs``: as of the last count, and accepted since; None: not counted
    kept_bytes: int | None  # the same
    permits: Mapping[str, int]  # in use or kept for queued runs, by limit, of the tenant's own concurrency caps
    queued: Mapping[str, int]  # runs that wait for a permit, by limit, as far as they were counted
    queued_longer: Sequence[str]  # limits of whose wait queues more runs wait than were counted


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


class FigureMethods(TenantsBase):
    """How a tenant does. The limit ``breaker_percent`` gives it a circuit breaker for each job, and one for all its jobs together."""

    def figures(self, tenant: str, *, minutes: int = _MINUTES) -> TenantFigures:
        """Rate, lateness, failures, backlog, and what is left of the limits, of the last ``minutes`` (at most 60). It writes nothing.

        The runs are those that ended: one that takes an hour is not among them before. They are read from the history, which is some
        seconds behind, the latest first, until 100 read units or 0.3 s are spent; ``since`` says how far. Costs some 30 reads besides.
        Raises InvalidInput, Misconfigured (the history is switched off), Forbidden, Unavailable.
        """
        name, span = check_tenant(tenant), check_whole("minutes", minutes, 1, _MOST_MINUTES) * MINUTE
        self._permit(Verb.READ_TENANT, name)
        if not self.session.settings.history:
            raise Misconfigured("QUARTERJACK_HISTORY=off: there are no figures of tenants; switch it on first")
        from quarterjack.history.read import PageBudget  # noqa: PLC0415 (`import quarterjack` need not take its time)
        from quarterjack.history.recent import recent, waiting  # noqa: PLC0415 (`import quarterjack` need not take its time)
        from quarterjack.state.history.stats import quantile  # noqa: PLC0415 (as above)
        from quarterjack.stores.history.pages import ReadMeter  # noqa: PLC0415 (as above)

        now, services, meters = self.session.clock(), self.session.services, (ReadMeter(), ReadMeter())
        found = recent(
            name,
            now=now,
            span=span,
            services=services,
            meter=meters[0],
            budget=PageBudget(meters[0], self.session.clock),
        )
        count, is_whole = waiting(
            name,
            now=now,
            most=_MOST_WAITING,
            services=services,
            meter=meters[1],
            budget=PageBudget(meters[1], self.session.clock),
        )
        sampled = [_waits(head, services, now) for head in _active(name, services)]
        limits = services.tenants.governance(name, now).limits
        permits = _permits(name, limits, services, now)
        queued, longer = _queued(name, permits, services)
        rates = [rate for word in RateWord if (rate := limits.rate(word)) is not None]
        is_counted = limits.schedules is not None or limits.fires_per_hour is not None
        stored = services.usage.count(name) if is_counted else None
        tally, ended = found.tally, found.tally.runs
        late = (quantile(tally.lateness, share) for share in (0.5, 0.99))
        p50, p99 = (None if each is None else round(each / SECOND, 3) for each in late)
        return TenantFigures(
            tenant=name,
            since=from_ms(found.since),
            until=from_ms(now),
            outcomes=tally.outcomes,
            started_per_minute=round(sum(tally.lateness.values()) * MINUTE / max(now - found.since, 1), 2),
            failed_share=round(sum(tally.outcomes.get(state, 0) for state in FAILED) / ended, 4) if ended else None,
            lateness_p50=p50,
            lateness_p99=p99,
            waiting=count,
            waiting_is_whole=is_whole,
            schedules_sampled=len(sampled),
            schedules_waiting=sum(sampled),
            limits=limits.given(),
            tokens={f"{rate.word}_per_second": services.usage.left(name, rate, now) for rate in rates},
            schedules=None if stored is None else stored.schedules,
            fires_per_hour=None if stored is None else stored.fires_per_hour,
            waiting_runs=_counted(name, QuotaWord.WAITING_RUNS, limits, services),
            kept_bytes=_counted(name, QuotaWord.KEPT_BYTES, limits, services),
            permits={limit: each.used() for limit, (_, each) in permits.items()},
            queued=queued,
            queued_longer=longer,
        )

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


def _counted(tenant: str, word: QuotaWord, limits: TenantLimits, services: Services) -> int | None:
    found = services.usage.quota(tenant, word) if word in limits.given() else None
    return None if found is None else found.in_use


def _permits(tenant: str, limits: TenantLimits, services: Services, now: int) -> dict[str, tuple[str, CapPermits]]:
    """Job and permits of the tenant's own caps, by limit: one read."""
    names = {} if limits.concurrent_runs is None else {ALL: "concurrent_runs"}
    names |= {job: f"{JOB_CAP}{job}" for job in limits.job_caps}
    found = permits_of(tenant, services) if names else {}
    return {name: (job, found.get(job, CapPermits()).current(now)) for job, name in names.items()}


def _queued(
    tenant: str, permits: Mapping[str, tuple[str, CapPermits]], services: Services
) -> tuple[dict[str, int], list[str]]:
    """Entries of the wait queues of caps, by limit, at most so many in sum; and the limits of whose wait queues have more.

    A query for each wait queue that is not empty. Runs that were cancelled count until their turn comes.
    """
    counts, longer, left = dict.fromkeys(permits, 0), list[str](), _MOST_WAITING
    for name, (job, each) in permits.items():
        if not each.has_queue:
            continue
        if left:
            cap = ConcurrencyCap(tenant=tenant, job=job, most=None)
            page = services.agenda.due(cap.wait_queue, upto=FAR, after=None, limit=left)
            counts[name] = len(page.entries)
            left -= len(page.entries)
            if page.last is None:
                continue
        longer.append(name)
    return counts, longer


def _active(tenant: str, services: Services) -> list[Head]:
    page = services.schedules.page(tenant, prefix="", limit=_SAMPLE, cursor=None)
    return [head for head in page.items if head.state is ScheduleState.ACTIVE]


def _waits(head: Head, services: Services, now: int) -> bool:
    """Whether the last fire of a schedule that was due 30 s ago or earlier has not started."""
    last = last_fire(head.owner, services, upto=now - UNSTARTED)
    return last is not None and is_unstarted(last)


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
