"""Circuit breakers of a tenant: one for each of its jobs that fails, one for all its jobs together. Pure.

    closed      attempts are counted in one-minute windows, from the first failure on
      │  90 % of at least 20 attempts failed, in the five windows since a failure began it
      ▼
    open        runs wait; one a minute is let through as a probe
      │  the probe succeeds: twice as many in the next minute, and so on; so many fail as opened it: one a minute again
      ▼
    closed      nothing waits: probes are left and nothing was held back for a while, or nobody has asked for one at all; or so many
                are let through that nothing waits any more

An attempt of a job whose own breaker is open counts for that one alone, and its runs ask that one alone: one bad job does not open the
breaker of all jobs, and its probes take no probes of the others.

What is open is a matter of one row for each tenant, and its version decides between the processes that write it. The row remembers the
last times in which one was open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from quarterjack.domain.times import MINUTE
from quarterjack.state.backpressure import GRACE
from quarterjack.values import replace, value

ALL = "*"  # stands for all jobs of the tenant together; in no job's name
WINDOWS = 5  # minutes over which attempts are counted
LEAST = 20  # attempts in them before a breaker opens
LARGEST = 1 << 17  # probes of a minute from which nothing is held any more
FORGOTTEN = 5 * MINUTE  # after which a run that found no probe would have asked again: it comes back within three
QUIET = 3 * MINUTE  # without an entry held back by the ticker before a breaker closes
_SHARE = 32  # part of a minute's probes that a worker takes at once
Windows = tuple[tuple[int, int, int], ...]  # minutes since 1970 with attempts that succeeded and failed
_REMEMBERED = 16  # times in which a breaker of the tenant was open and that are over: they keep the row below two KB


def breaker_of(job: str) -> str:
    """A breaker, by the name under which it is kept."""
    return "the circuit breaker of all jobs" if job == ALL else f"the circuit breaker of job {job}"


@value(kw_only=True)
class OpenPeriod:
    """A time in which a breaker was open."""

    job: str  # ALL: all jobs of the tenant together
    since: int  # UTC ms
    until: int | None = None  # UTC ms; None: it is open
    actor: str | None = None  # who closed it by hand


@value(kw_only=True)
class Breaker:
    """Of one job, or of all jobs of a tenant."""

    windows: Windows = ()
    watched_since: int | None = None  # minute of the failure since which attempts are counted
    opened_at: int | None = None  # UTC ms; None: it is closed
    percent: int = 100  # of failures, by which it opened
    rate: int = 1  # probes of a minute
    since: int = 0  # UTC ms at which the present minute of probes began
    taken: int = 0  # probes of it
    refused: bool = False  # whether a run found none left
    succeeded: int = 0  # attempts that ended in it
    failed: int = 0  # likewise
    held_at: int = 0  # UTC ms at which the ticker held an entry back last

    @property
    def is_open(self) -> bool:
        return self.opened_at is not None

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to remember."""
        return self.is_open or self.watched_since is not None

    def is_quiet(self, now: int) -> bool:
        """Whether nothing waits for it: nobody has asked for a probe for so long, and the ticker holds nothing back."""
        return self.is_open and now - self.since > FORGOTTEN and now - self.held_at > QUIET

    def fails(self, percent: int, apart: Iterable[Windows] = ()) -> bool:
        """Whether so large a share of the attempts in its windows failed as opens it, without the attempts ``apart``."""
        kept = {at for at, _, _ in self.windows}
        left_out = [(one, other) for windows in apart for at, one, other in windows if at in kept]
        failures = sum(other for _, _, other in self.windows) - sum(other for _, other in left_out)
        attempts = failures + sum(one for _, one, _ in self.windows) - sum(one for one, _ in left_out)
        return attempts >= LEAST and failures * 100 >= percent * attempts

    def without(self, apart: Windows) -> Breaker:
        """It is closed, and as if these attempts had never been counted."""
        gone = {at: (one, other) for at, one, other in apart}
        left = [(at, one - gone.get(at, (0, 0))[0], other - gone.get(at, (0, 0))[1]) for at, one, other in self.windows]
        failing = [at for at, _, failures in left if failures > 0]
        return replace(self, windows=tuple(left), watched_since=failing[0]) if failing else Breaker()

    def counted(
        self, minute: int, succeeded: int, failed: int, *, now: int, percent: int, apart: Iterable[Windows] = ()
    ) -> Breaker:
        """With attempts that ended in a minute; it may open by them. ``percent``: of failures at which it does, without those ``apart``."""
        if self.is_open:
            return replace(self, succeeded=self.succeeded + succeeded, failed=self.failed + failed)
        windows = {at: (one, other) for at, one, other in self.windows}
        before = windows.get(minute, (0, 0))
        windows[minute] = before[0] + succeeded, before[1] + failed
        kept = tuple(
            (at, *windows[at]) for at in sorted(windows) if now // MINUTE - WINDOWS < at <= max(minute, now // MINUTE)
        )
        failing = [at for at, _, failures in kept if failures]
        if not failing:
            return Breaker()
        since = failing[0] if self.watched_since is None else self.watched_since
        watched = replace(self, windows=kept, watched_since=since)
        is_long = now // MINUTE - since >= WINDOWS - 1
        if is_long and watched.fails(percent, apart):
            return Breaker(opened_at=now, percent=percent, since=now, taken=1)
        return watched

    def probe(self, now: int) -> tuple[Breaker, int]:
        """The breaker after a run asked to start, and how many may by its answer: 0 for none. Ask only an open one; it may close."""
        present = self if now < self.since + MINUTE else self._next_minute(now)
        if not present.is_open:
            return present, 1
        granted = min(max(present.rate // _SHARE, 1), present.rate - present.taken)
        if granted <= 0:
            return replace(present, refused=True), 0
        return replace(present, taken=present.taken + granted), granted

    def _next_minute(self, now: int) -> Breaker:
        """By what came of the last minute's probes. A share of failures that would not open it does not hold it open."""
        if self.is_quiet(now):
            return Breaker()
        ended, rate = self.succeeded + self.failed, self.rate
        if self.failed * 100 >= self.percent * max(ended, 1):
            rate = 1
        elif ended:
            is_idle = self.taken < rate and not self.refused and now - self.held_at > QUIET
            if is_idle or rate >= LARGEST:
                return Breaker()
            rate *= 2
        return Breaker(opened_at=self.opened_at, percent=self.percent, since=now, rate=rate, held_at=self.held_at)

    def fed(self, now: int) -> int:
        """Fires that a tick lets through: none while runs that wait already find no probe.

        One that found none asks again, and begins another minute, unless it was cancelled or has expired: then nobody asks any more.
        """
        if self.refused and now < self.since + FORGOTTEN:
            return 0
        return (self if now < self.since + MINUTE else self._next_minute(now)).rate


@value()
class TenantBreakers:
    """The breakers of one tenant, by job; those without failures are left out."""

    jobs: Mapping[str, Breaker] = field(default_factory=dict)
    past: tuple[OpenPeriod, ...] = ()  # the last ones that are over, in the order of their ends

    @property
    def open(self) -> list[str]:
        """The jobs whose breakers are open."""
        return sorted(job for job, breaker in self.jobs.items() if breaker.is_open)

    def over(self, job: str) -> list[str]:
        """The name of the open breaker that stands before a job, if there is one: its own before that of all jobs."""
        return [name for name in (job, ALL) if name in self.jobs and self.jobs[name].is_open][:1]

    def counted(self, counts: Iterable[tuple[str, int, int, int]], *, now: int, percent: int) -> TenantBreakers:
        """With attempts: job, minute, succeeded, failed."""
        jobs = dict(self.jobs)
        for job, minute, succeeded, failed in counts:
            present, every = jobs.get(job, Breaker()), jobs.get(ALL, Breaker())
            jobs[job] = present.counted(minute, succeeded, failed, now=now, percent=percent)
            if not jobs[job].is_open:  # a job that fails by itself is not what opens the breaker of all
                apart = [one.windows for name, one in jobs.items() if name != ALL and one.fails(percent)]
                jobs[ALL] = every.counted(minute, succeeded, failed, now=now, percent=percent, apart=apart)
            elif not (present.is_open or every.is_open):
                jobs[ALL] = every.without(present.windows)
        return self._with(jobs, now)

    def probe(self, job: str, now: int) -> tuple[TenantBreakers, int]:
        """After a run of a job asked the breaker before it, and the next one if that closed; how many may start by the answer, 0: none."""
        after, granted = self, 1
        while names := after.over(job):
            breaker, granted = after.jobs[names[0]].probe(now)
            after = after._with({**after.jobs, names[0]: breaker}, now)
            if breaker.is_open:
                break
        return (self if after == self else after), granted

    def probes_until(self, job: str) -> int:
        """UTC ms at which the probes of a job lapse that were taken by now."""
        return min((self.jobs[name].since + MINUTE for name in self.over(job)), default=0)

    def fed(self, job: str, now: int) -> int | None:
        """Fires of a job that a tick lets through; None: all."""
        return min((self.jobs[name].fed(now) for name in self.over(job)), default=None)

    def held(self, names: Iterable[str], now: int) -> TenantBreakers:
        """After the ticker held entries back for these breakers."""
        marked = {name: replace(self.jobs[name], held_at=now) for name in names if name in self.jobs}
        return replace(self, jobs={**self.jobs, **marked})

    def without_quiet(self, now: int) -> TenantBreakers:
        """With those closed for which nothing waits any more."""
        return self._with({name: one for name, one in self.jobs.items() if not one.is_quiet(now)}, now)

    def without(self, job: str | None, now: int, actor: str | None = None) -> TenantBreakers:
        """With the breaker of a job closed, by ``actor``, and nothing counted; None: all of them."""
        left = {} if job is None else {name: each for name, each in self.jobs.items() if name != job}
        return self._with(left, now, actor)

    def _with(self, jobs: Mapping[str, Breaker], now: int, actor: str | None = None) -> TenantBreakers:
        """With these breakers in place of the present ones; what ends thereby is remembered."""
        needed = {name: breaker for name, breaker in jobs.items() if breaker.is_needed}
        after = TenantBreakers(needed, self.past)
        ended = [
            OpenPeriod(job=name, since=self.jobs[name].opened_at or 0, until=now, actor=actor)
            for name in self.open
            if name not in after.open
        ]
        return replace(after, past=(*self.past, *ended)[-_REMEMBERED:]) if ended else after

    def are_felt(self, now: int) -> bool:
        """Whether one is open, or was until so lately that fires may still come late for it."""
        return bool(self.open) or any(now - (period.until or 0) <= GRACE for period in self.past)

    @property
    def periods(self) -> list[OpenPeriod]:
        """The times in which breakers were open, and are, as far as they are remembered, in the order of their beginnings."""
        present = [OpenPeriod(job=name, since=self.jobs[name].opened_at or 0) for name in self.open]
        return sorted([*self.past, *present], key=lambda period: (period.since, period.job))

    def between(self, job: str, since: int, until: int, *, grace: int = 0) -> list[OpenPeriod]:
        """Those of the breakers before a job that lie, with ``grace`` ms after their ends, between two instants (UTC ms)."""
        return [
            period
            for period in self.periods
            if period.job in (job, ALL)
            and period.since <= until
            and (period.until is None or period.until + grace >= since)
        ]

    def has_held(self, job: str, due: int, now: int) -> bool:
        """Whether a fire of a job that was due then (UTC ms) has not been claimed by now because of a breaker."""
        return bool(self.between(job, due, now, grace=GRACE))

    def changes(self, before: TenantBreakers) -> list[OpenPeriod]:
        """What has opened since ``before``, and what has closed."""
        return [period for period in self.periods if period not in before.periods]

    def body(self) -> dict[str, Any]:
        """The body of a record, as JSON values."""
        past = [[one.job, one.since, one.until, one.actor] for one in self.past]
        return {"jobs": {name: vars(breaker) for name, breaker in self.jobs.items()}, "past": past}


_NUMBERS = ("percent", "rate", "since", "taken", "succeeded", "failed", "held_at")


def parse_breakers(body: Mapping[str, Any]) -> TenantBreakers:
    """The reverse of ``TenantBreakers.body``."""
    past = (
        OpenPeriod(job=job, since=int(since), until=int(until), actor=actor)
        for job, since, until, actor in body["past"]
    )
    return TenantBreakers({name: _breaker(stored) for name, stored in body["jobs"].items()}, tuple(past))


def _breaker(stored: Mapping[str, Any]) -> Breaker:
    windows = tuple((int(at), int(one), int(other)) for at, one, other in stored["windows"])
    numbers: dict[str, Any] = {name: int(stored[name]) for name in _NUMBERS}
    optional: dict[str, Any] = {
        name: None if stored[name] is None else int(stored[name]) for name in ("watched_since", "opened_at")
    }
    return Breaker(windows=windows, refused=bool(stored["refused"]), **numbers, **optional)


HINTS = "~quarterjack/~hints"  # the owner of their records


class Hint(StrEnum):
    """Why; the beginning of a hint's key."""

    OPEN = "~open~"


def tenant_of_hint(key: str) -> str:
    """The tenant that a hint is of."""
    return key.removeprefix(Hint.OPEN)
