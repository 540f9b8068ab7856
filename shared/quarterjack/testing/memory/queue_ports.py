"""The work queues and the dead-letter queue in memory, as one process sees them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from quarterjack.domain.message import DeadLetter, encode_letter
from quarterjack.domain.times import DAY, SECOND
from quarterjack.errors import Unavailable
from quarterjack.ports.queues import OutgoingMessage, RawMessage, WorkDepth
from quarterjack.ports.services import Clock
from quarterjack.sqs.routing import BATCH, MAX_VISIBILITY, cut_by_size
from quarterjack.sqs.striped_queue import StripedQueue, log_detour, log_refusal
from quarterjack.sqs.stripes import Stripe, Stripes, by_receipt
from quarterjack.state.backpressure import QueueDepth
from quarterjack.testing.memory.calls import Calls
from quarterjack.testing.memory.queues import MemoryQueue

MAX_DELAY = 900  # seconds

Idle = Callable[
    [float], object
]  # waits up to that many seconds for a message: a thread's wait, or a clock that moves on


@dataclass(frozen=True)
class Receiver:
    """Long polls of one process. ``idle`` is called where one would wait; None: it returns at once."""

    calls: Calls
    clock: Clock
    idle: Idle | None

    def receive(
        self, queue: MemoryQueue, place: str, most: int, wait: float, visibility: int | None
    ) -> list[RawMessage]:
        def take() -> list[RawMessage]:
            return queue.take(max(1, min(most, BATCH)), visibility)

        found = self.calls.one("ReceiveMessage", place, "receive", take)
        if found or self.idle is None or wait <= 0:
            return found
        upcoming = queue.next_visible()
        self.idle(wait if upcoming is None else min(wait, max(upcoming - self.clock(), 0) / SECOND))
        return self.calls.one("ReceiveMessage", place, "receive", take)


class MemoryWorkQueue(StripedQueue):
    """The work queues over ``queues``. It receives from ``consumes``, and knows of ``stripes``."""

    def __init__(
        self,
        calls: Calls,
        queues: Mapping[Stripe, MemoryQueue],
        receiver: Receiver,
        *,
        stripes: Stripes,
        consumes: str | None = None,
        low_age: int = DAY,
    ) -> None:
        super().__init__(stripes, consumes=consumes, low_age=low_age)
        self._calls, self._queues, self._receiver = calls, queues, receiver

    def _exists(self, stripe: Stripe) -> bool:
        return self._calls.one("GetQueueUrl", stripe.suffix, "exists", lambda: stripe in self._queues)

    def send(self, messages: Sequence[OutgoingMessage]) -> Sequence[bool]:
        for message in messages:
            if type(message.delay) is not int or not 0 <= message.delay <= MAX_DELAY:
                raise ValueError(f"DelaySeconds={message.delay!r}: SQS takes whole seconds from 0 to {MAX_DELAY}")
        accepted = [False] * len(messages)
        for stripe, places in self._stripes.places(messages).items():
            found = self._find(stripe, len(places))
            if found is not None:
                for place in self._send(found, [messages[place] for place in places]):
                    accepted[places[place]] = True
        return accepted

    def _find(self, stripe: Stripe, messages: int) -> Stripe | None:
        """The SQS queue itself, or that to which messages go where it does not exist; None if there is no such queue."""
        if stripe in self._queues:
            return stripe
        if (other := stripe.detour) is not None:
            log_detour(stripe, messages, "there is no such queue")
            return self._find(other, messages)
        log_refusal(str(stripe.queue), messages, "there is no such queue")
        return None

    def _send(self, stripe: Stripe, messages: Sequence[OutgoingMessage]) -> Collection[int]:
        """Send to one stripe: the places of the messages that were accepted."""
        bodies = [each.message.encode() for each in messages]
        return self._calls.many(
            "SendMessageBatch",
            stripe.suffix,
            "send",
            [each.message.run for each in messages],
            lambda i: self._queues[stripe].put(bodies[i], messages[i].delay),
            cut=lambda places: cut_by_size(places, lambda i: len(bodies[i].encode())),
        )

    def load(self, parts: Collection[str | None]) -> dict[str | None, Sequence[QueueDepth]]:
        def count() -> dict[str | None, Sequence[QueueDepth]]:
            return {part: self._loads(part) for part in parts}

        return self._calls.one("GetQueueAttributes", "work", "load", count)

    def _loads(self, part: str | None) -> list[QueueDepth]:
        stripes = self._stripes.of_part(part)
        return [self._queues[stripe].load() for stripe in stripes if stripe in self._queues]

    def survey(self) -> Sequence[WorkDepth]:
        found = self._calls.one("ListQueues", "work", "survey", lambda: sorted(self._queues, key=_order))
        return [stripe.depth(self._depth(stripe)) for stripe in found]

    def _depth(self, stripe: Stripe) -> QueueDepth | None:
        with suppress(Unavailable):
            return self._calls.one("GetQueueAttributes", stripe.suffix, "depth", self._queues[stripe].load)
        return None

    def names(self) -> Sequence[str]:
        def declared() -> list[str]:
            return sorted({queue for queue, _, _ in self._queues if queue is not None})

        return self._calls.one("ListQueues", "work", "names", declared)

    def _receive(self, stripe: Stripe, most: int, wait: float, visibility: int) -> Sequence[RawMessage]:
        return self._receiver.receive(self._queues[stripe], stripe.suffix, most, wait, visibility)

    def hide(self, receipts: Sequence[str], seconds: int) -> None:
        hidden = min(max(seconds, 0), MAX_VISIBILITY)
        self._each("ChangeMessageVisibilityBatch", "hide", receipts, lambda queue, receipt: queue.hide(receipt, hidden))

    def delete(self, receipt: str) -> None:
        ((stripe, (own,)),) = by_receipt([receipt], self._consumes).items()
        queue = self._queues[stripe]
        self._calls.one("DeleteMessage", stripe.suffix, "delete", lambda: queue.delete(own), receipt)

    def erase(self, receipts: Sequence[str]) -> None:
        self._each("DeleteMessageBatch", "erase", receipts, lambda queue, receipt: queue.delete(receipt))

    def _each(
        self, operation: str, verb: str, receipts: Sequence[str], do: Callable[[MemoryQueue, str], object]
    ) -> None:
        """Batches for each stripe. Raises Unavailable if messages were throttled; the caller repeats."""
        throttled = 0
        for stripe, own in by_receipt(receipts, self._consumes).items():
            queue, place = self._queues[stripe], stripe.suffix
            effects = [partial(do, queue, receipt) for receipt in own]
            done = self._calls.many(operation, place, verb, own, partial(_run, effects), most=BATCH, rounds=1)
            throttled += len(own) - len(done)
        if throttled:
            raise Unavailable(f"{operation}: {throttled} messages were throttled")


def _order(stripe: Stripe) -> tuple[str, int, int]:
    return stripe.order


def _run(effects: Sequence[Callable[[], object]], place: int) -> object:
    return effects[place]()


class MemoryDeadQueue:
    """The dead-letter queue over its ``queue``."""

    def __init__(self, calls: Calls, queue: MemoryQueue, receiver: Receiver) -> None:
        self._calls, self._queue, self._receiver = calls, queue, receiver

    def send(self, letter: DeadLetter) -> None:
        self._calls.one("SendMessage", "dead", "send", lambda: self._queue.put(encode_letter(letter)), letter.reason)

    def receive(self, *, most: int, wait: float) -> Sequence[RawMessage]:
        return self._receiver.receive(self._queue, "dead", most, wait, None)

    def delete(self, receipt: str) -> None:
        self._calls.one("DeleteMessage", "dead", "delete", lambda: self._queue.delete(receipt), receipt)
