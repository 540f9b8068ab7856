"""What the steps of a worker share: its services, clock and name, and the ways to let a message go."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from minutehand.concurrency.threads import ThreadCache
from minutehand.domain.agenda_entry import AgendaEntry, EntryKind
from minutehand.domain.formats.dead_letter import DeadLetter
from minutehand.domain.formats.message import Message
from minutehand.domain.names import shard_of
from minutehand.domain.run import Failure
from minutehand.domain.times import SECOND
from minutehand.flow.erase import Eraser
from minutehand.flow.heartbeat import Heartbeat, Ticket
from minutehand.flow.outcome import Outcome
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.ports.work_queue import OutgoingMessage
from minutehand.state.start import MAX_DELAY, delay_for


@dataclass(frozen=True, kw_only=True)
class Desk:
    """One worker process."""

    services: Services
    clock: Clock
    heartbeat: Heartbeat
    eraser: Eraser
    wait: Callable[[float], object]  # seconds; may end early
    random: random.Random
    name: str  # of this process, for attempts' rows
    threads: ThreadCache = field(default_factory=ThreadCache)  # that run its jobs
    abandoned: threading.Event = field(default_factory=threading.Event)  # set when a job's thread was left running

    def expires(self, now: int) -> int:
        """When a run that ends now leaves the ledger (UTC ms)."""
        return now + self.services.retention

    def wait_until(self, instant: int) -> None:
        """Until its own clock says so (UTC ms)."""
        while (left := instant - self.clock()) > 0:
            self.wait(left / SECOND)

    def delete(self, ticket: Ticket) -> None:
        """The message is done with."""
        self.heartbeat.let_go(ticket)
        self.eraser.add(ticket.receipt)

    def delete_all(self, tickets: Sequence[Ticket]) -> None:
        """These messages are done with."""
        for ticket in tickets:
            self.heartbeat.let_go(ticket)
        self.eraser.add(*(ticket.receipt for ticket in tickets))

    def hide(self, ticket: Ticket, until: int) -> None:
        """Let the message come back at a time (UTC ms)."""
        self.heartbeat.let_go(ticket)
        left = max(until - self.clock(), 0)
        self.services.work.hide([ticket.receipt], -(-left // SECOND))

    def token(self) -> str:
        """A new lease's own word, by which its holder knows the lease again whose answer was lost: 16 hexadecimal digits."""
        return f"{self.random.getrandbits(64):016x}"

    def postpone(self, ticket: Ticket, message: Message, until: int) -> bool:
        """Order the run anew for a time (UTC ms): a delayed message, or beyond SQS's reach an agenda entry. False: not accepted."""
        now = self.clock()
        if until - now <= MAX_DELAY:
            accepted = self.services.work.send([OutgoingMessage(message, delay_for(until, message.start, now))])[0]
        else:
            accepted = bool(self.services.agenda.put([self._entry(message, until, now)]))
        if accepted:
            self.delete(ticket)
        return accepted

    def _entry(self, message: Message, due: int, now: int) -> AgendaEntry:
        shard = shard_of(message.run.owner, self.services.agenda.shards())
        return AgendaEntry(
            shard=shard, due=due, kind=EntryKind.RUN, id=str(message.run), created_at=now, queue=message.queue
        )

    def bury(self, body: str, fence: int, reason: str, failure: Failure | None) -> None:
        """Send a verdict to the dead-letter queue."""
        failure = failure or Failure(kind="", message="")
        self.services.dead.send(
            DeadLetter(
                body=body,
                reason=reason,
                fence=fence,
                error_type=failure.kind,
                error=failure.message,
                traceback=failure.traceback,
            )
        )

    def kept(self, ticket: Ticket, why: str, message: Message | None, *, after: int) -> Outcome:
        """The message comes back after so many ms: nothing is known to be wrong with it."""
        self.hide(ticket, self.clock() + after)
        return Outcome(gone=False, action="kept", why=why, message=message)
