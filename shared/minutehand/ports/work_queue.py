"""The work queues."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from minutehand.domain.formats.message import Message
from minutehand.domain.quick import quick
from minutehand.state.backpressure import QueueDepth


@dataclass(frozen=True)
class OutgoingMessage:
    """A message and the seconds (0 to 900) that the queue holds it back."""

    message: Message
    delay: int


@quick
@dataclass(frozen=True, kw_only=True)
class RawMessage:
    """A message as received."""

    body: str  # as sent
    receipt: str  # handle for this delivery
    receives: int  # how often it was delivered, this one included
    id: str = ""  # SQS's message id


class WorkQueue(Protocol):
    """The work queues, as one process sees them: it sends to all of them and takes from one, whose ``stripes`` it takes in turn."""

    @property
    def stripes(self) -> int:
        """How many SQS queues the queue that this process takes from consists of, as far as it knows."""

    def count_stripes(self) -> int:
        """How many there are: whoever takes from a queue has to know all of them. Raises Unavailable."""

    def send(self, parcels: Sequence[OutgoingMessage]) -> Sequence[bool]:
        """Send each message to its stripe of the queue that it names, in batches: for each, whether it was accepted.

        A declared queue that is not there accepts nothing, and stops no other; that of the default one is Misconfigured. What
        would go to a stripe that is not there goes to the first.
        """

    def load(self, queues: Collection[str | None]) -> dict[str | None, Sequence[QueueDepth]]:
        """What the stripes of these queues hold (None: the default one), about; those that do not answer are left out."""

    def names(self) -> Sequence[str]:
        """The declared queues that exist, sorted; the default one is not among them."""

    def receive(self, *, most: int, wait: float, visibility: int, stripe: int = 0) -> Sequence[RawMessage]:
        """Up to ``most`` messages of a stripe, waiting ``wait`` seconds for the first, hidden from others for ``visibility`` seconds."""

    def hide(self, receipts: Sequence[str], seconds: int) -> None:
        """Hide received messages for so many seconds from now (0: show them). What is gone already is passed over."""

    def delete(self, receipt: str) -> None:
        """Delete a received message now; one that is gone already is passed over."""

    def erase(self, receipts: Sequence[str]) -> None:
        """Delete received messages in batches; as ``delete``."""
