"""Read the whole ledger and send the runs again that should have a message in a work queue: after a queue was purged or made anew.

    a page of each part of the ledger ──► runs in the order of their ids ──► their rows, read strongly ──► messages, at the rate

Memory holds one page of each part. The position is a part's cursor and the last run that was handled, so a call goes on exactly where
another one stopped; what dies between two positions sends one batch twice, which the lease makes harmless.

    run                                          what happens
    waits in the wait queue of a concurrency cap       the ticker is told to check the queue, and no message goes
    of a frozen or suspended tenant              its message goes: workers keep it in the queue until the run may start
    waits for its turn                           its message goes: a worker finds whether its turn has come
    RUNNING                                      its message goes: it hides until the lease would end, and starts the run if that lapses
"""

from __future__ import annotations

import base64
import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from quarterjack.concurrency.rate_limits import StopSignal, TokenBucket
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.message import Message
from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.domain.run import RunRow
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.errors import InvalidInput, Unavailable
from quarterjack.fires.audit_entry import audit_entry
from quarterjack.fires.claim import messages_of
from quarterjack.fires.context import LOOKAHEAD, FireContext
from quarterjack.fires.resend import send_again
from quarterjack.state.start import belongs_in_queue
from quarterjack.values import replace

SEGMENTS = 8  # parts of the ledger, read side by side
ROWS = 1_000  # rows of a page: about a megabyte, so that a step holds eight
BATCH = 100  # runs that are read and sent at once; at a low rate fewer
AGAIN = (1.0, 2.0, 4.0, 8.0)  # seconds before a page that was not answered is read again
_BURST = 0.25  # seconds whose runs go at once

log = logging.getLogger(__name__)

_Due = tuple[RunRow, Message]  # a run that should have a message, and that message


@dataclass(frozen=True, kw_only=True)
class ResendFilter:
    """Which runs, of those that should have a message; None matches all."""

    tenant: str | None = None
    job: str | None = None
    due_before: int | None = None  # UTC ms: those that may start earlier
    queue: str | None = None  # its name, "default" included

    def takes(self, run: RunRow) -> bool:
        """Whether a run matches, as far as its row tells it: its queue is in its message."""
        return (
            self.tenant in (None, run.ref.tenant)
            and self.job in (None, run.job)
            and (self.due_before is None or run.not_before < self.due_before)
        )

    def goes_to(self, message: Message) -> bool:
        """Whether the queue of a message matches."""
        return self.queue in (None, queue_of(message))


@dataclass(frozen=True, kw_only=True)
class ResendPosition:
    """How far a walk through the ledger has come."""

    parts: Mapping[int, str] = field(default_factory=lambda: dict.fromkeys(range(SEGMENTS), ""))
    after: str = ""  # id of the last run of their present pages that was handled; "": none

    def encode(self) -> str:
        """The position as text for a cursor."""
        body = {"parts": {str(number): cursor for number, cursor in self.parts.items()}, "after": self.after}
        return base64.urlsafe_b64encode(json.dumps(body, separators=(",", ":")).encode()).decode()

    @classmethod
    def decode(cls, text: str | None) -> ResendPosition:
        """The reverse; None is the beginning. Raises InvalidInput."""
        if text is None:
            return cls()
        try:
            body: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text.encode()))
            return cls(parts={int(number): str(at) for number, at in body["parts"].items()}, after=str(body["after"]))
        except (ValueError, KeyError, AttributeError, TypeError):
            raise InvalidInput("cursor", text, "is not a position", "pass the cursor of the call before") from None


@dataclass(kw_only=True)
class ResendReport:
    """What one call did, or would do."""

    sent: Counter[str] = field(default_factory=Counter)  # messages by queue
    refused: Counter[str] = field(default_factory=Counter)  # messages by queue that it did not accept
    queued: int = 0  # runs that wait in the wait queue of a concurrency cap
    unread: int = 0  # runs that could not be read, or whose revision could not
    position: ResendPosition | None = field(default_factory=ResendPosition)  # to go on from; None: the ledger is read


@dataclass(frozen=True, kw_only=True)
class Resending:
    """How to send again."""

    context: FireContext
    rate: float  # messages a second
    dry_run: bool
    stop: StopSignal
    limit: int | None = None  # messages
    on_progress: Callable[[ResendReport], object] = lambda report: None  # after each batch


def queue_of(message: Message) -> str:
    """The name of the queue that a message goes to."""
    return message.queue or DEFAULT_QUEUE


def resend(wanted: ResendFilter, how: Resending, position: ResendPosition) -> ResendReport:
    """Send what ``wanted`` matches, from ``position`` on. Raises Unavailable, Misconfigured; the last progress says where to go on.

    The audit has an audit entry of the call before the first message goes. A dry run writes nothing.
    """
    if not how.dry_run:
        audit = audit_entry(
            AuditAct.RESEND,
            wanted.tenant or INSTALLATION,
            how.context,
            job=wanted.job,
            queue=wanted.queue,
            due_before=wanted.due_before,
            rate=how.rate,
        )
        how.context.services.audit.write(audit)
    return _Walk(wanted, how, position).run()


class _Walk:
    """One call: from a position to the end of the ledger, or until it is stopped or has sent enough."""

    def __init__(self, wanted: ResendFilter, how: Resending, position: ResendPosition) -> None:
        self._wanted, self._how, self._services = wanted, how, how.context.services
        self._bucket = TokenBucket(how.rate, how.context.clock, how.stop)
        self._batch = max(1, min(BATCH, int(how.rate * _BURST)))
        self.report = ResendReport(position=position)

    def run(self) -> ResendReport:
        report = self.report
        while (position := report.position) is not None and not self._is_over():
            rows, rest = self._read(position)
            runs = iter(sorted((run for run in rows if str(run.ref) > position.after), key=lambda run: str(run.ref)))
            while batch := list(islice(runs, BATCH)):
                if self._is_over() or not self._handle(batch, position):
                    return report
            report.position = ResendPosition(parts=rest) if rest else None
            self._how.on_progress(report)
        return report

    def _read(self, position: ResendPosition) -> tuple[Sequence[RunRow], Mapping[int, str]]:
        """A page of each part. A busy table may answer late: it is asked again, a few times."""
        for pause in AGAIN:
            try:
                return self._services.upkeep.unfinished(position.parts, segments=SEGMENTS, rows=ROWS)
            except Unavailable as problem:
                log.warning("resend.read_again", extra={"error": str(problem), "seconds": pause})
                if self._how.stop.wait(pause):
                    break
        return self._services.upkeep.unfinished(position.parts, segments=SEGMENTS, rows=ROWS)

    def _handle(self, batch: Sequence[RunRow], position: ResendPosition) -> bool:
        """The runs of a batch, so many at a time as the rate allows; False if the call is over before the last of them."""
        due = iter(self._due(batch))
        while part := list(islice(due, self._batch)):
            going = self._allowed(part)
            if going:
                self._send(going)
                self._reached(replace(position, after=str(going[-1][0].ref)))
            if len(going) < len(part):
                return False
        self._reached(replace(position, after=str(batch[-1].ref)))
        return True

    def _reached(self, position: ResendPosition) -> None:
        self.report.position = position
        self._how.on_progress(self.report)

    def _due(self, batch: Sequence[RunRow]) -> list[_Due]:
        """Those that should have a message now, by their rows as they are now, with these messages and in the same order."""
        known = [run.ref for run in batch if self._takes(run)]
        answer = self._services.ledger.look(known)
        runs = [run for ref in known if (run := answer.found.get(ref)) is not None and self._takes(run)]
        messages = messages_of(runs, self._services)
        self.report.unread += len(answer.unanswered) + len(runs) - len(messages)
        found = [(run, message) for run in runs if (message := messages.get(run.ref)) is not None]
        return [(run, message) for run, message in found if self._wanted.goes_to(message)]

    def _takes(self, run: RunRow) -> bool:
        return self._wanted.takes(run) and belongs_in_queue(run, self._how.context.clock(), LOOKAHEAD)

    def _allowed(self, part: Sequence[_Due]) -> Sequence[_Due]:
        """As many of them as the limit and the rate allow, after the wait that the rate asks for; none if the call is stopped."""
        left = len(part) if self._how.limit is None else self._how.limit - self.report.sent.total()
        going = part[:left]
        goes_on = not self._bucket.is_stopped() if self._how.dry_run else all(self._bucket.go_on() for _ in going)
        return going if goes_on else ()

    def _is_over(self) -> bool:
        enough = self._how.limit is not None and self.report.sent.total() >= self._how.limit
        return enough or self._bucket.is_stopped()

    def _send(self, runs: Sequence[_Due]) -> None:
        done = send_again(runs, self._services, self._how.context.clock, dry_run=self._how.dry_run)
        self.report.sent.update(map(queue_of, done.sent))
        self.report.refused.update(map(queue_of, done.refused))
        self.report.queued += done.queued
