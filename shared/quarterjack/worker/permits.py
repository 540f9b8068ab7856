"""What a worker process has of concurrency caps: the permits that it took for its runs, one write for each record of caps and batch.

Only this process writes what it has, always as whole numbers: a write that got no answer is corrected by the next one. The heartbeat
renews permits before leases. A permit whose lease may still be live, because nobody answered, is given back when that lease is over.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from quarterjack.concurrency.forks import HoldsLocks
from quarterjack.errors import QuarterjackError
from quarterjack.fires.context import next_look
from quarterjack.fires.flow.wait_queue import change_permits, put_queue_timer
from quarterjack.ports.services import Clock, Services
from quarterjack.state.lease import SKEW
from quarterjack.state.tenants.caps import ConcurrencyCap, PermitHold
from quarterjack.state.tenants.permits import PermitRequest, SharedPermits
from quarterjack.worker.flow_permits import FlowPool

log = logging.getLogger(__name__)

_MOST_TIMERS = 1_000  # that a process remembers of those that it has put


class _Lapsed(Exception):
    """The record has no permits of this process any more."""


class CapHolding(HoldsLocks):
    """What this process has of the caps that share a record."""

    def __init__(self, cap: ConcurrencyCap) -> None:
        self.record = cap.record
        self.caps = dict[
            str, ConcurrencyCap
        ]()  # by job, as they were asked last: those of which it has permits, or had
        self.process = ""  # of its permits in the record
        self.counts = Counter[str]()  # of them, by job
        self.until = 0  # UTC ms
        self.over = list[tuple[int, str]]()  # of some of them: UTC ms from which their leases are over, and the job
        self.unwritten = False  # whether the record has more
        super().__init__()

    def _make_locks(self) -> None:
        self.lock = threading.Lock()  # held during requests: one at a time writes what this process has

    def forget(self, process: str = "") -> None:
        """Begin anew. What the record has under the present name is free when its time is over."""
        self.process, self.counts, self.until, self.over, self.unwritten = process, Counter(), 0, [], False

    def prune(self, now: int) -> None:
        """Without permits whose leases are over."""
        left = [(at, job) for at, job in self.over if at >= now]
        self.unwritten = self.unwritten or len(left) < len(self.over)
        self.drop(job for at, job in self.over if at < now)
        self.over = left

    def drop(self, jobs: Iterable[str]) -> None:
        """Without a permit of the cap of each of these jobs."""
        self.counts = +(self.counts - Counter(jobs))

    def written(self) -> None:
        """The record has what this process has."""
        self.unwritten = False
        self.caps = {job: cap for job, cap in self.caps.items() if self.counts[job]}


class PermitPool(HoldsLocks):
    """The permits of one process. Thread-safe."""

    def __init__(self) -> None:
        self._caps: dict[str, CapHolding] = {}
        self._flows = FlowPool()
        self._timers: dict[str, int] = {}  # by cap: UTC ms of the timer that was put last for its wait queue
        super().__init__()

    def _make_locks(self) -> None:
        self._lock = threading.Lock()

    def of(self, cap: ConcurrencyCap) -> CapHolding:
        """What this process has of the record of a cap."""
        with self._lock:
            return self._caps.setdefault(cap.record, CapHolding(cap))

    def take(
        self, wanted: Sequence[PermitRequest], name: str, services: Services, clock: Clock
    ) -> tuple[dict[str, ConcurrencyCap], str]:
        """Take permits for runs, of caps that share a record; the runs that got none, and by which cap, and the name under which it took.

        Raises Unavailable: what the record has too much of this process then, its next write corrects.
        """
        caps = {cap.job: cap for each in wanted for cap in each.caps}
        if any(cap.flow is not None for cap in caps.values()):
            return self._flows.take(wanted, name, services, clock), ""
        holding, refused = self.of(wanted[0].caps[0]), dict[str, ConcurrencyCap]()
        with holding.lock:
            now = clock()
            if holding.until <= now:
                holding.forget(f"{name}~{now}")
            holding.prune(now)

            def edit(permits: SharedPermits) -> SharedPermits:
                nonlocal refused
                if not permits.has(holding.process, holding.counts):
                    holding.forget(f"{name}~{now}")
                after, refused = permits.taken(holding.process, holding.counts, wanted, now)
                return after

            holding.unwritten = True
            holding.caps |= caps
            after = change_permits(list(caps.values()), edit, services, clock, name=holding.process)
            holding.counts.update(cap.job for each in wanted for cap in each.caps if each.run not in refused)
            holding.until = after.until(holding.process)
            holding.written()
            return refused, holding.process

    def give_back(self, holds: Iterable[tuple[PermitHold, int]], services: Services, clock: Clock) -> None:
        """Give permits back, each when its lease is over for sure (UTC ms; 0: now). Raises nothing: the next beat repeats it.

        That of a flow is given back if the lease is over, else it lapses.
        """
        by_record: dict[str, list[tuple[PermitHold, int]]] = defaultdict(list)
        of_flows = list[PermitHold]()
        for hold, over in holds:
            if hold.cap.flow is None:
                by_record[hold.cap.record].append((hold, over))
            elif not over:
                of_flows.append(hold)
        if of_flows:
            self._flows.give_back(of_flows, services, clock)
        for own in by_record.values():
            holding = self.of(own[0][0].cap)
            with holding.lock:
                holding.caps |= {hold.cap.job: hold.cap for hold, _ in own}
                ends = [(over, hold.cap.job) for hold, over in own if hold.holder == holding.process]
                holding.over += [(over, job) for over, job in ends if over]
                holding.drop(job for over, job in ends if not over)
                holding.unwritten = holding.unwritten or not all(over for over, _ in ends)
                holding.prune(clock())
                self._write(holding, services, clock)

    def _write(self, holding: CapHolding, services: Services, clock: Clock) -> None:
        """Write what this process still has of a record, if the record has more."""
        if not holding.unwritten:
            return
        try:
            change_permits(
                list(holding.caps.values()),
                lambda permits: permits.kept(holding.process, holding.counts),
                services,
                clock,
                name=holding.process,
            )
        except QuarterjackError as problem:
            log.warning("permits.not_given_back", extra={"cap": holding.record, "error": str(problem)})
        else:
            holding.written()

    def covers(self, hold: PermitHold, until: int) -> bool:
        """Whether a lease up to an instant (UTC ms) ends before its permit does."""
        if hold.cap.flow is not None:
            return self._flows.covers(hold, until)
        with self._lock:
            holding = self._caps.get(hold.cap.record)
        return holding is not None and holding.process == hold.holder and until <= holding.until

    def renew(self, holds: Iterable[PermitHold], services: Services, now: int) -> None:
        """Renew the permits of leased runs, and give back those whose leases are over. Raises nothing: what was not renewed lapses."""
        of_flows = [hold for hold in holds if hold.cap.flow is not None]
        if of_flows:
            self._flows.renew(of_flows, services, now)
        with self._lock:
            holdings = list(self._caps.values())
        for holding in holdings:
            with holding.lock:
                holding.prune(now)
                if holding.counts.total() > len(holding.over):
                    self._renew(holding, services, now)
                elif holding.until + SKEW >= now:
                    self._write(holding, services, lambda: now)

    def _renew(self, holding: CapHolding, services: Services, now: int) -> None:
        def edit(permits: SharedPermits) -> SharedPermits:
            if not permits.has(holding.process, holding.counts):
                raise _Lapsed
            return permits.renewed(holding.process, holding.counts, now)

        try:
            after = change_permits(
                list(holding.caps.values()),
                edit,
                services,
                lambda: now,
                name=holding.process,
            )
        except _Lapsed:
            log.error("permits.lapsed", extra={"cap": holding.record, "permits": holding.counts.total()})
            holding.forget()
        except Exception as problem:  # noqa: BLE001 (any failure: no lease is renewed beyond these permits)
            log.warning("permits.not_renewed", extra={"cap": holding.record, "error": str(problem)})
        else:
            holding.until = after.until(holding.process)
            holding.written()

    def check_later(self, cap: ConcurrencyCap, services: Services, now: int) -> None:
        """Leave a timer for a cap's wait queue, unless this process has left it already. Raises Unavailable."""
        due = next_look(now)
        if self._timers.get(cap.id) != due:
            put_queue_timer(cap, services, due, now)
            with self._lock:
                if len(self._timers) >= _MOST_TIMERS:
                    self._timers.clear()
                self._timers[cap.id] = due
