"""What a worker process knows of circuit breakers: the attempts that it counted, and the probes that it has taken.

For tenants with a limit ``breaker_percent`` alone. A tenant's breakers are read once in BELIEVED ms. Attempts are counted from a failure
on: they are written together, once in FLUSH ms; while a breaker is open, at once, because its probes decide what goes on.
Fails open: if breakers cannot be read or written, runs start, and what was counted waits for the next write.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from quarterjack.concurrency.forks import HoldsLocks
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.fires.breakers import change_breakers, read_breakers
from quarterjack.ports.services import Services
from quarterjack.state.tenants.breaker import WINDOWS, TenantBreakers
from quarterjack.stores.tenants.profiles import BELIEVED

log = logging.getLogger(__name__)

FLUSH = 10 * SECOND  # between two writes of what was counted
_OLDEST = 2 * BELIEVED  # ms for which others go on with what is known while one thread reads: at first nothing is


class Passage(Enum):
    """What the circuit breakers say to a run that is about to start."""

    FREE = "free"  # none stands before it
    PROBE = "probe"  # it has a probe: see ``BreakerBook.give_back``
    HELD = "held"  # there is no probe for it


@dataclass
class _Known:
    """Of one tenant."""

    read_at: int = -BELIEVED  # UTC ms at which some thread began to read
    known_at: int = -_OLDEST  # UTC ms of what is known
    breakers: TenantBreakers = field(default_factory=TenantBreakers)
    succeeded: Counter[tuple[str, int]] = field(default_factory=Counter)  # by job and minute, not yet written
    failed: Counter[tuple[str, int]] = field(default_factory=Counter)
    percent: int = 100
    written_at: int = -FLUSH  # UTC ms
    # By breaker and job: UTC ms until which, and how many.
    probes: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)


class BreakerBook(HoldsLocks):
    """The breakers of the tenants whose runs one process starts. Thread-safe."""

    def __init__(self) -> None:
        self._tenants: dict[str, _Known] = {}
        super().__init__()

    def _make_locks(self) -> None:
        self._lock = threading.Lock()  # of the counts and probes; no request is made under it

    def ask(self, tenant: str, job: str, services: Services, now: int) -> Passage:
        """Whether a run may start."""
        known = self._known(tenant)
        breakers = self._breakers(tenant, known, services, now)
        place = _place(breakers, job)
        if place is None:
            return Passage.FREE
        with self._lock:
            until, left = known.probes.get(place, (0, 0))
            if left and now < until:
                known.probes[place] = until, left - 1
                return Passage.PROBE
        if breakers.probe(job, now)[0] is breakers:  # none is left, and that is known
            return Passage.HELD
        granted = 0

        def take(present: TenantBreakers) -> TenantBreakers:
            nonlocal granted
            after, granted = present.probe(job, now)
            return after

        try:
            self._learn(known, change_breakers(tenant, take, services), now)
        except Exception as problem:  # noqa: BLE001 (any failure: fails open)
            log.warning("breaker.unread", extra={"tenant": tenant, "error": f"{type(problem).__name__}: {problem}"})
            return Passage.FREE
        if not granted:
            return Passage.HELD
        place = _place(known.breakers, job)
        if place is not None:
            with self._lock:
                known.probes[place] = known.breakers.probes_until(job), granted - 1
        return Passage.PROBE

    def known(self, tenant: str, services: Services, now: int) -> TenantBreakers:
        """The breakers of a tenant, as old as BELIEVED at most; none if they cannot be read."""
        return self._breakers(tenant, self._known(tenant), services, now)

    def give_back(self, tenant: str, job: str) -> None:
        """Keep the probe of a run that did not start for the next one, as long as it counts."""
        known = self._known(tenant)
        place = _place(known.breakers, job)
        if place is not None:
            with self._lock:
                until, left = known.probes.get(place, (0, 0))
                known.probes[place] = until, left + 1

    def count(self, tenant: str, job: str, services: Services, now: int, *, succeeded: bool, percent: int) -> None:
        """Count an attempt that ended."""
        known = self._known(tenant)
        breakers = self._breakers(tenant, known, services, now)
        with self._lock:
            known.percent = percent
            if succeeded and not breakers.jobs and not known.failed:
                return
            (known.succeeded if succeeded else known.failed)[job, now // MINUTE] += 1
            is_due = bool(breakers.over(job)) or not 0 <= now - known.written_at < FLUSH
        if is_due:
            self._write(tenant, known, services, now)

    def flush(self, services: Services, now: int) -> None:
        """Write what was counted some time ago."""
        for tenant, known in list(self._tenants.items()):
            if (known.succeeded or known.failed) and not 0 <= now - known.written_at < FLUSH:
                self._write(tenant, known, services, now)

    def _known(self, tenant: str) -> _Known:
        return self._tenants.setdefault(tenant, _Known())

    def _breakers(self, tenant: str, known: _Known, services: Services, now: int) -> TenantBreakers:
        if 0 <= now - known.read_at < BELIEVED:
            return known.breakers
        if 0 <= now - known.known_at < _OLDEST:
            known.read_at = now  # others go on with what is known meanwhile
        try:
            self._learn(known, read_breakers(tenant, services)[0], now)
        except Exception as problem:  # noqa: BLE001 (any failure: fails open)
            self._learn(known, TenantBreakers(), now)
            log.warning("breaker.unread", extra={"tenant": tenant, "error": f"{type(problem).__name__}: {problem}"})
        return known.breakers

    def _learn(self, known: _Known, breakers: TenantBreakers, now: int) -> None:
        known.breakers, known.read_at, known.known_at = breakers, now, now

    def _write(self, tenant: str, known: _Known, services: Services, now: int) -> None:
        with self._lock:
            succeeded, failed = known.succeeded, known.failed
            known.succeeded, known.failed, known.written_at = Counter(), Counter(), now
            percent = known.percent
        oldest = now // MINUTE - WINDOWS
        keys = sorted(key for key in {*succeeded, *failed} if key[1] > oldest)
        counts = [(job, minute, succeeded[job, minute], failed[job, minute]) for job, minute in keys]
        if not counts:
            return
        try:
            after = change_breakers(tenant, lambda one: one.counted(counts, now=now, percent=percent), services)
        except Exception as problem:  # noqa: BLE001 (any failure: it is written with what follows)
            log.warning(
                "breaker.not_counted", extra={"tenant": tenant, "error": f"{type(problem).__name__}: {problem}"}
            )
            with self._lock:
                known.succeeded += succeeded
                known.failed += failed
            return
        self._learn(known, after, now)


def _place(breakers: TenantBreakers, job: str) -> tuple[str, str] | None:
    """Under which the probes of a job are kept: those of one breaker are no probes of another. None: no breaker stands before it."""
    return next(((name, job) for name in breakers.over(job)), None)
