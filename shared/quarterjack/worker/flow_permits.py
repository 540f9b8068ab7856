"""What a worker process has of the keys of flows: a permit for each of its runs, one write for each key and batch.

A permit belongs to its run. Whoever sent the run's message has taken it, mostly, and then this process writes nothing until the run has
ended. It renews the permits whose runs go on, before their leases, and gives a permit back only after it has recorded the end of the
run's attempt: a second delivery of the message has the same permit.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence

from quarterjack.concurrency.forks import HoldsLocks
from quarterjack.errors import QuarterjackError
from quarterjack.fires.flow.wait_queue import change_cap
from quarterjack.ports.services import Clock, Services
from quarterjack.state.lease import LEASE, SKEW, lease_end
from quarterjack.state.tenants.caps import ConcurrencyCap, PermitHold
from quarterjack.state.tenants.permits import CapPermits, PermitRequest

log = logging.getLogger(__name__)


class FlowPool(HoldsLocks):
    """The permits of the runs of one process. Thread-safe."""

    def __init__(self) -> None:
        self._until: dict[
            ConcurrencyCap, dict[str, int]
        ] = {}  # by run: UTC ms up to which this process knows its permit to last
        self._pruned = 0  # UTC ms
        super().__init__()

    def _make_locks(self) -> None:
        self._lock = threading.Lock()

    def take(
        self, wanted: Sequence[PermitRequest], name: str, services: Services, clock: Clock
    ) -> dict[str, ConcurrencyCap]:
        """Take permits of one key for runs; the runs that got none, with the cap. Raises Unavailable: permits that were written lapse."""
        cap, got = wanted[0].caps[0], set[str]()
        runs = [(each.run, each.was_queued) for each in wanted]

        def edit(permits: CapPermits) -> CapPermits:
            nonlocal got
            after, got = permits.claimed(cap, runs, clock())
            return after

        after, now = change_cap(cap, edit, services, clock, name=name), clock()
        if cap.most is not None:
            with self._lock:
                self._until.setdefault(cap, {}).update({run: after.sent[run] for run in got})
                self._prune(now)
        return {each.run: cap for each in wanted if each.run not in got}

    def covers(self, hold: PermitHold, until: int) -> bool:
        """Whether a lease up to an instant (UTC ms) ends before its permit does."""
        with self._lock:
            return hold.cap.most is None or until <= self._until.get(hold.cap, {}).get(hold.holder, 0)

    def give_back(self, holds: Iterable[PermitHold], services: Services, clock: Clock) -> None:
        """Give permits back whose runs have no lease any more. Raises nothing: what is not given back lapses."""
        by_cap: dict[ConcurrencyCap, list[str]] = defaultdict(list)
        for hold in holds:
            if hold.cap.most is not None:
                by_cap[hold.cap].append(hold.holder)
        for cap, runs in by_cap.items():
            with self._lock:
                self._drop(cap, runs)
            _give_back(cap, runs, services, clock)

    def renew(self, holds: Iterable[PermitHold], services: Services, now: int) -> None:
        """Renew the permits that would end before leases that are renewed now. Raises nothing: what was not renewed lapses."""
        by_cap: dict[ConcurrencyCap, list[str]] = defaultdict(list)
        for hold in holds:
            if not self.covers(hold, lease_end(now)):
                by_cap[hold.cap].append(hold.holder)
        for cap, runs in by_cap.items():
            self._renew(cap, runs, services, now)

    def _renew(self, cap: ConcurrencyCap, runs: Sequence[str], services: Services, now: int) -> None:
        has = list[str]()

        def edit(permits: CapPermits) -> CapPermits:
            has[:] = [run for run in runs if run in permits.sent]
            return permits.kept_for(has, now)

        try:
            after = change_cap(cap, edit, services, lambda: now, name=runs[0])
        except Exception as problem:  # noqa: BLE001 (any failure: no lease is renewed beyond these permits)
            log.warning("permits.not_renewed", extra={"cap": cap.id, "error": str(problem)})
            return
        if len(has) < len(runs):
            log.error("permits.lapsed", extra={"cap": cap.id, "permits": len(runs) - len(has)})
        with self._lock:
            self._until.setdefault(cap, {}).update({run: after.sent[run] for run in has})

    def _prune(self, now: int) -> None:
        """Without what has lapsed: a second delivery, or a run whose end was not recorded."""
        if now - self._pruned < LEASE:
            return
        self._pruned = now
        over = [(cap, run) for cap, own in self._until.items() for run, until in own.items() if until + SKEW < now]
        for cap, run in over:
            self._drop(cap, [run])

    def _drop(self, cap: ConcurrencyCap, runs: Iterable[str]) -> None:
        left = self._until.get(cap, {})
        for run in runs:
            left.pop(run, None)
        if not left:
            self._until.pop(cap, None)


def _give_back(cap: ConcurrencyCap, runs: Sequence[str], services: Services, clock: Clock) -> None:
    try:
        change_cap(cap, lambda permits: permits.without(runs), services, clock, name=runs[0])
    except QuarterjackError as problem:
        log.warning("permits.not_given_back", extra={"cap": cap.id, "error": str(problem)})
