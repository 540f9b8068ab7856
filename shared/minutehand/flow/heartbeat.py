"""Heartbeat: keep what a worker has at hand hidden from others, and what it runs leased."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from minutehand.errors import Unavailable
from minutehand.flow.ports import Services
from minutehand.model.moment import SECOND
from minutehand.model.names import RunRef
from minutehand.runs.transitions import LEASE, SKEW, renew

log = logging.getLogger(__name__)

HIDDEN = (
    LEASE + SKEW
) // SECOND + 1  # seconds: a message comes back just when its run may be taken from a crashed worker


@dataclass(eq=False)
class Ticket:
    """A message at hand, and the lease on its run once there is one."""

    receipt: str
    ref: RunRef
    fence: int | None = None  # of the lease; None before it and after it was settled
    lost: bool = False  # somebody else may have the run


class Heartbeat:
    """The tickets of one worker process. ``beat`` is called every HEARTBEAT by whoever owns the clock."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._tickets: set[Ticket] = set()
        self._lock = threading.Lock()  # held while visibility is extended: what was let go is not hidden again

    def take(self, tickets: list[Ticket]) -> None:
        """Keep these messages hidden until they are let go."""
        with self._lock:
            self._tickets.update(tickets)

    def let_go(self, ticket: Ticket) -> None:
        """Stop keeping this one."""
        with self._lock:
            self._tickets.discard(ticket)

    def at_hand(self) -> list[Ticket]:
        """All tickets, leased or not."""
        with self._lock:
            return list(self._tickets)

    def leased(self) -> list[Ticket]:
        """The tickets whose runs are executing."""
        with self._lock:
            return [ticket for ticket in self._tickets if ticket.fence is not None]

    def beat(self, now: int) -> None:
        """Extend every visibility and renew every lease once."""
        with self._lock:
            receipts = [ticket.receipt for ticket in self._tickets]
            try:
                if receipts:
                    self._services.work.hide(receipts, HIDDEN)
            except Unavailable as problem:
                log.warning("heartbeat.hide_failed", extra={"error": str(problem)})
        for ticket in self.leased():
            self._renew(ticket, now)

    def _renew(self, ticket: Ticket, now: int) -> None:
        fence = ticket.fence
        if fence is None:
            return
        try:
            renewed = self._services.ledger.move(ticket.ref, renew(fence=fence, now=now)).applied
        except Unavailable as problem:
            log.warning("heartbeat.renew_failed", extra={"run_id": str(ticket.ref), "error": str(problem)})
            return
        if not renewed and ticket.fence is not None:
            ticket.lost = True
            log.error("lease.lost", extra={"run_id": str(ticket.ref), "fence": fence})
