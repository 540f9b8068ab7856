"""The work queues and the dead-letter queue."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from quarterjack.domain.message import DeadLetter, Message
from quarterjack.domain.policies import Priority
from quarterjack.state.backpressure import QueueDepth
from quarterjack.values import value


@value()
class OutgoingMessage:
    """A message to send."""

    message: Message
    delay: int  # seconds before the queue delivers it, 0 to 900


@value(kw_only=True)
class RawMessage:
    """A received message."""

    body: str  # as sent
    receipt: str  # handle for this delivery
    receives: int  # deliveries so far, this one included
    id: str = ""  # SQS's message id
    sent_at: int = 0  # UTC ms, by SQS's clock; 0: not known
    lane: Priority = Priority.NORMAL  # that it came by
    aged: bool = False  # it came by the low lane and counts against the normal share

    @property
    def share(self) -> Priority:
        """The lane whose share of a worker process's slots it takes."""
        return Priority.NORMAL if self.aged else self.lane


@value(kw_only=True)
class WorkDepth:
    """One of the SQS queues of a work queue, with its depth."""

    queue: str | None  # a declared queue; None: the default one
    number: int  # 0, 1, 2 …: among those of its lane
    priority: Priority  # whose lane it belongs to
    depth: QueueDepth | None  # None: it did not answer

    @property
    def label(self) -> str:
        """Its number, after its lane unless that is the normal one: ``0``, ``low-0``."""
        return str(self.number) if self.priority is Priority.NORMAL else f"{self.priority}-{self.number}"


class WorkQueue(Protocol):
    """The work queues, as one process sees them: it sends to all queues, and receives from the lanes of one."""

    low_age: int  # ms after which a run of low priority that waits counts as normal

    @property
    def width(self) -> int:
        """The number of pollers that a lane of the queue that it receives from has something to do for."""

    @property
    def lanes(self) -> Sequence[Priority]:
        """The lanes that this process knows of that queue, the most urgent first."""

    def lanes_of(self, queue: str | None) -> Sequence[Priority]:
        """The same of any queue; None: the default one."""

    def discover(self) -> None:
        """Learn what the queue that it receives from really consists of, as a consumer must. Raises Unavailable.

        It forgets nothing that it was told.
        """

    def send(self, messages: Sequence[OutgoingMessage]) -> Sequence[bool]:
        """Send each message to its lane of the queue that it names, in batches: for each, whether it was accepted.

        A declared queue that does not exist accepts nothing; the others do. Messages for a missing lane go to the normal one.
        Raises Misconfigured if the default queue does not exist.
        """

    def load(self, parts: Collection[str | None]) -> dict[str | None, Sequence[QueueDepth]]:
        """Approximate depths of the SQS queues of parts as ``held_part`` names them; one that does not answer is left out."""

    def survey(self) -> Sequence[WorkDepth]:
        """The SQS queues of work that exist, in order, the default queue's first.

        One request for each, and one for each 1,000.
        """

    def names(self) -> Sequence[str]:
        """The declared queues that exist, sorted, without the default one."""

    def receive(
        self,
        *,
        most: int,
        wait: float,
        visibility: int,
        lane: Priority = Priority.NORMAL,
        poller: int = 0,
        pollers: int = 1,
    ) -> Sequence[RawMessage]:
        """Up to ``most`` messages of a lane (10 at most), after at most ``wait`` seconds (20 at most) for the first.

        They are hidden from other consumers for ``visibility`` seconds. At most ``width`` ``pollers`` share the lane; each gives its
        number ``poller``, from 0. One that has several SQS queues receives from them in turn, and waits at most a second.
        """

    def hide(self, receipts: Sequence[str], seconds: int) -> None:
        """Hide received messages for ``seconds`` from now, 0 to 43,200 (0: show them). Deleted messages are ignored."""

    def delete(self, receipt: str) -> None:
        """Delete a received message; one that is deleted already is ignored."""

    def erase(self, receipts: Sequence[str]) -> None:
        """Delete received messages in batches, as ``delete``."""


class DeadQueue(Protocol):
    """The dead-letter queue, as the undertaker and the workers use it."""

    def send(self, letter: DeadLetter) -> None:
        """Send a dead letter."""

    def receive(self, *, most: int, wait: float) -> Sequence[RawMessage]:
        """Up to ``most`` dead letters (10 at most), after at most ``wait`` seconds (20 at most) for the first."""

    def delete(self, receipt: str) -> None:
        """Delete a received letter; one that is deleted already is no error."""
