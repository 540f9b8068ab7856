"""Heartbeat: keep what a worker has at hand hidden from others, and what it runs leased."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field

from minutehand.domain.names import RunRef
from minutehand.domain.times import SECOND
from minutehand.errors import MinutehandError
from minutehand.ports.services import Services
from minutehand.state.transitions.lease import LEASE, SKEW, renew

log = logging.getLogger(__name__)

# Seconds: a message comes back just when its run may be taken from a crashed worker.
HIDDEN = (LEASE + SKEW) // SECOND + 1


@dataclass(eq=False)
class Ticket:
    """A message at hand, and the lease on its run once there is one. What happens to the run meanwhile wakes who waits for it."""

    receipt: str
    ref: RunRef
    fence: int | None = None  # of the lease; None before it and after it was settled
    lost: bool = False  # somebody else may have the run
    held: bool = False  # leased ahead of its instant, and its job has not begun
    gone: bool = False  # at most once: its message goes before the job's code, and its run is never given to another
    cancel_seen: int | None = None  # UTC ms at which a heartbeat saw that the run's cancellation was asked for
    checkpointed: bool = False  # this attempt has recorded a checkpoint since its lease
    progress: float | None = None  # 0 to 1, for the next heartbeat
    stage: str | None = None  # likewise
    changed: threading.Condition = field(default_factory=threading.Condition)  # notified when any of this changes

    def lose(self) -> None:
        """Another worker may have the run, or will."""
        self.lost = True  # before it is read whom to wake: who takes over the waiting looks afterwards
        self._wake()

    def see_cancel(self, now: int) -> None:
        """The run's owner asked for its cancellation."""
        if self.cancel_seen is None:
            self.cancel_seen = now
            self._wake()

    def _wake(self) -> None:
        changed = self.changed  # once: another group may take over the waiting
        with changed:
            changed.notify_all()


class Heartbeat:
    """The tickets of one worker process. ``beat`` is called every HEARTBEAT by whoever owns the clock."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._tickets: dict[Ticket, None] = {}  # in the order of coming: a simulated history can be repeated
        self._lock = threading.Lock()  # held while visibility is extended: what was let go is not hidden again

    def take(self, tickets: list[Ticket]) -> None:
        """Keep these messages hidden until they are let go."""
        with self._lock:
            self._tickets.update(dict.fromkeys(tickets))

    def let_go(self, ticket: Ticket) -> None:
        """Stop keeping this one."""
        with self._lock:
            self._tickets.pop(ticket, None)

    def at_hand(self) -> list[Ticket]:
        """All tickets, leased or not."""
        with self._lock:
            return list(self._tickets)

    def leased(self) -> list[Ticket]:
        """The tickets whose runs are executing."""
        with self._lock:
            return [ticket for ticket in self._tickets if ticket.fence is not None]

    def beat(self, now: int) -> None:
        """Renew every lease and extend every visibility once; what fails for one stops no other.

        Leases come first: a message that shows too early only meets a live lease, but a lease that is not renewed is lost.
        """
        for ticket in self.leased():
            self._renew(ticket, now)
        with self._lock:
            receipts = [ticket.receipt for ticket in self._tickets]
            try:
                if receipts:
                    self._services.work.hide(receipts, HIDDEN)
            except MinutehandError as problem:
                log.warning("heartbeat.hide_failed", extra={"error": str(problem)})

    def _renew(self, ticket: Ticket, now: int) -> None:
        fence = ticket.fence
        if fence is None:
            return
        beat = renew(fence=fence, now=now, progress=ticket.progress, stage=ticket.stage)
        try:
            renewed = self._services.ledger.move(ticket.ref, beat)
        except MinutehandError as problem:
            log.warning("heartbeat.renew_failed", extra={"run_id": str(ticket.ref), "error": str(problem)})
            return
        if not renewed.applied and ticket.fence is not None:
            ticket.lose()
            log.error("lease.lost", extra={"run_id": str(ticket.ref), "fence": fence})
        elif renewed.applied and renewed.run is not None and renewed.run.cancel_requested:
            ticket.see_cancel(now)
