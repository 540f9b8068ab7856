"""Visibility: the heartbeat keeps messages hidden and leases live; the delete buffer deletes settled messages in batches.

``InFlightMessage`` is what the threads of a batch, of its jobs and of the heartbeat tell each other about one message.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunRow
from quarterjack.domain.times import SECOND
from quarterjack.errors import QuarterjackError
from quarterjack.ports.queues import WorkQueue
from quarterjack.ports.services import Services
from quarterjack.state.lease import lease_end, renew, takeable_at
from quarterjack.state.tenants.caps import PermitHold
from quarterjack.values import value
from quarterjack.worker.permits import PermitPool

log = logging.getLogger(__name__)

# Seconds: a message comes back just when its run may be taken from a crashed worker.
HIDDEN = takeable_at(lease_end(0)) // SECOND
LINGER = 0.1  # seconds that a deletion waits for others
_FULL = 10  # deletions of one request


@value(kw_only=True)
class Lease:
    """The lease on a run, as it was taken."""

    run: RunRow  # as leased
    unbegun: bool = False  # taken ahead of its instant, and its job has not begun


@value(kw_only=True)
class RunPermits:
    """What a run has of concurrency caps."""

    holds: tuple[PermitHold, ...] = ()
    asked: bool = False  # it asked for permits
    uncapped: bool = False  # it starts without one, because they could not be read or written


@value(kw_only=True)
class JobProgress:
    """What a job says of itself, for the next heartbeat."""

    fraction: float | None = None  # 0 to 1
    stage: str | None = None


_NO_PERMITS, _NO_PROGRESS = RunPermits(), JobProgress()


@dataclass(eq=False)
class InFlightMessage:
    """A message that this process keeps hidden, as several threads see it.

    Permits, lease and progress are values that one step or thread puts in place as a whole.
    """

    receipt: str
    ref: RunRef
    permits: RunPermits = _NO_PERMITS
    has_probe: bool = False  # it took a probe of a circuit breaker
    at_most_once: bool = False  # its message goes before the job's code, and its run is never given to another worker
    lease: Lease | None = None  # on its run; it stays after the run's end was recorded
    leased_until: int = 0  # UTC ms up to which a lease of it may be live; 0: none is for sure
    settled: bool = False  # the end of the attempt was recorded
    lost: bool = False  # another worker may have the run
    cancel_seen: int | None = None  # UTC ms at which a heartbeat saw that the run's cancellation was asked for
    progress: JobProgress = _NO_PROGRESS
    finished: bool = False  # its outcome was reported
    changed: threading.Condition = field(default_factory=threading.Condition)  # notified when any of this changes

    @property
    def fence(self) -> int | None:
        """Of the lease; None before it and after the attempt's end was recorded."""
        return None if self.lease is None or self.settled else self.lease.run.fence

    def lose(self) -> None:
        """Another worker may have the run, or will."""
        self.lost = True  # before the condition is read: a watch that replaces it looks afterwards
        self._wake()

    def see_cancel(self, now: int) -> None:
        """The run's owner asked for its cancellation."""
        if self.cancel_seen is None:
            self.cancel_seen = now
            self._wake()

    def _wake(self) -> None:
        changed = self.changed  # read once: a watch may replace it meanwhile
        with changed:
            changed.notify_all()


class Heartbeat:
    """The messages in flight of one worker process, and its permits. ``beat`` is called every HEARTBEAT by the process's shell."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.permits = PermitPool()
        self._messages: dict[InFlightMessage, None] = {}  # in order of receipt: a simulated history can be repeated
        self._lock = threading.Lock()  # held while visibility is extended: what was let go is not hidden again

    def take(self, messages: list[InFlightMessage]) -> None:
        """Keep these messages hidden until they are let go."""
        with self._lock:
            self._messages.update(dict.fromkeys(messages))

    def let_go(self, messages: Iterable[InFlightMessage]) -> None:
        """Stop keeping these."""
        with self._lock:
            for in_flight in messages:
                self._messages.pop(in_flight, None)

    def all(self) -> list[InFlightMessage]:
        """All messages in flight, leased or not."""
        with self._lock:
            return list(self._messages)

    def leased(self) -> list[InFlightMessage]:
        """Those whose runs are executing."""
        with self._lock:
            return [in_flight for in_flight in self._messages if in_flight.fence is not None]

    def beat(self, now: int) -> None:
        """Renew every permit and lease, and extend every visibility once; what fails for one stops no other.

        No lease may end after its permits, so these come before it. Leases come before visibilities: a message that shows too early only
        meets a live lease, but a lease that is not renewed is lost.
        """
        leased = self.leased()
        self.permits.renew([hold for each in leased for hold in each.permits.holds], self._services, now)
        for in_flight in leased:
            self._renew(in_flight, now)
        with self._lock:
            receipts = [in_flight.receipt for in_flight in self._messages]
            try:
                if receipts:
                    self._services.work.hide(receipts, HIDDEN)
            except QuarterjackError as problem:
                log.warning("heartbeat.hide_failed", extra={"error": str(problem)})

    def _renew(self, in_flight: InFlightMessage, now: int) -> None:
        fence = in_flight.fence
        if fence is None:  # settled meanwhile
            return
        if not all(self.permits.covers(hold, lease_end(now)) for hold in in_flight.permits.holds):
            log.error("lease.without_permit", extra={"run_id": str(in_flight.ref)})
            return
        in_flight.leased_until = lease_end(now)
        said = in_flight.progress
        beat = renew(fence=fence, now=now, progress=said.fraction, stage=said.stage)
        try:
            renewed = self._services.ledger.move(in_flight.ref, beat)
        except QuarterjackError as problem:
            log.warning("heartbeat.renew_failed", extra={"run_id": str(in_flight.ref), "error": str(problem)})
            return
        if not renewed.applied and in_flight.fence is not None:
            in_flight.leased_until = 0
            in_flight.lose()
            log.error("lease.lost", extra={"run_id": str(in_flight.ref), "fence": fence})
        elif renewed.applied and renewed.run is not None and renewed.run.cancel_requested:
            in_flight.see_cancel(now)


class DeleteBuffer:
    """Deletions that wait for others. Without ``serve`` running, ``add`` deletes at once."""

    def __init__(self, work: WorkQueue) -> None:
        self._work = work
        self._receipts: list[str] = []
        self._changed = threading.Condition()
        self._serving = False

    def add(self, *receipts: str) -> None:
        """Delete these messages soon."""
        with self._changed:
            is_first = not self._receipts
            self._receipts += receipts
            size = len(self._receipts)
            whole = size - size % _FULL if self._serving else size
            full, self._receipts = self._receipts[:whole], self._receipts[whole:]
            if is_first and self._receipts:  # else it is awake: to wake a thread costs as much as half a request
                self._changed.notify_all()
        self._erase(full)

    def serve(self, ended: threading.Event) -> None:
        """Delete what comes until ``ended``; the body of a thread. Call ``stop`` after setting it."""
        with self._changed:
            self._serving = True
        while not ended.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._receipts or ended.is_set())
            ended.wait(LINGER)
            self.flush()

    def stop(self) -> None:
        """Delete what is left, and from now on at once."""
        with self._changed:
            self._serving = False
            self._changed.notify_all()
        self.flush()

    def flush(self) -> None:
        """Delete what has come so far. What cannot be deleted comes back once, and finds its run ended."""
        with self._changed:
            receipts, self._receipts = self._receipts, []
        self._erase(receipts)

    def _erase(self, receipts: list[str]) -> None:
        if not receipts:
            return
        try:
            self._work.erase(receipts)
        except QuarterjackError as problem:
            log.warning("erase.failed", extra={"messages": len(receipts), "error": str(problem)})
