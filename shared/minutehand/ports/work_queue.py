"""The work queues."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from minutehand.domain.message import Message
from minutehand.state.backpressure import QueueDepth
from minutehand.values import value


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


class WorkQueue(Protocol):
    """The work queues, as one process sees them: it sends to all queues, and receives from the ``stripes`` of one."""

    @property
    def stripes(self) -> int:
        """The number of SQS queues that this process knows of the queue that it receives from."""

    def count_stripes(self) -> int:
        """The number that exist. A consumer must receive from all of them."""

    def send(self, messages: Sequence[OutgoingMessage]) -> Sequence[bool]:
        """Send each message to its stripe of the queue that it names, in batches: for each, whether it was accepted.

        A declared queue that does not exist accepts nothing; the others do. Messages for a missing stripe go to the first. Raises
        Misconfigured if the default queue does not exist.
        """

    def load(self, queues: Collection[str | None]) -> dict[str | None, Sequence[QueueDepth]]:
        """Approximate depths of the stripes of queues (None: the default one); a stripe that does not answer is left out."""

    def survey(self) -> Mapping[str | None, Sequence[QueueDepth | None]]:
        """The queues that exist (None: the default one), with the depths of their stripes in order; None for one that does not answer.

        One request for each stripe, and one for each 1,000 queues.
        """

    def names(self) -> Sequence[str]:
        """The declared queues that exist, sorted, without the default one."""

    def receive(self, *, most: int, wait: float, visibility: int, stripe: int = 0) -> Sequence[RawMessage]:
        """Up to ``most`` messages of a stripe (10 at most), after at most ``wait`` seconds (20 at most) for the first.

        They are hidden from other consumers for ``visibility`` seconds.
        """

    def hide(self, receipts: Sequence[str], seconds: int) -> None:
        """Hide received messages for ``seconds`` from now, 0 to 43,200 (0: show them). Deleted messages are ignored."""

    def delete(self, receipt: str) -> None:
        """Delete a received message; one that is deleted already is ignored."""

    def erase(self, receipts: Sequence[str]) -> None:
        """Delete received messages in batches, as ``delete``."""
