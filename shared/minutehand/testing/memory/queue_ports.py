"""The work queues and the dead-letter queue in memory, as one process sees them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from minutehand.domain.message import DeadLetter, encode_letter
from minutehand.domain.times import SECOND
from minutehand.errors import Unavailable
from minutehand.ports.services import Clock
from minutehand.ports.work_queue import OutgoingMessage, RawMessage
from minutehand.sqs.routing import (
    BATCH,
    MAX_VISIBILITY,
    Stripe,
    by_stripe,
    cut_by_size,
    held,
    log_detour,
    log_refusal,
    receipts_by_stripe,
    work_suffix,
)
from minutehand.state.backpressure import QueueDepth
from minutehand.testing.memory.calls import Calls
from minutehand.testing.memory.queues import MemoryQueue

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


class MemoryWorkQueue:
    """The work queues over ``queues``. It receives from ``consumes``; ``stripes`` are the numbers of stripes that it knows."""

    def __init__(
        self,
        calls: Calls,
        queues: Mapping[Stripe, MemoryQueue],
        receiver: Receiver,
        *,
        consumes: str | None = None,
        stripes: Mapping[str | None, int],
    ) -> None:
        self._calls, self._queues, self._receiver = calls, queues, receiver
        self._consumes, self._striped = consumes, stripes

    @property
    def stripes(self) -> int:
        return self._striped.get(self._consumes, 1)

    def count_stripes(self) -> int:
        def count() -> int:
            return sum(stripe.queue == self._consumes for stripe in self._queues)

        return self._calls.one("GetQueueUrl", "work", "count_stripes", count)

    def send(self, messages: Sequence[OutgoingMessage]) -> Sequence[bool]:
        for message in messages:
            if type(message.delay) is not int or not 0 <= message.delay <= MAX_DELAY:
                raise ValueError(f"DelaySeconds={message.delay!r}: SQS takes whole seconds from 0 to {MAX_DELAY}")
        accepted = [False] * len(messages)
        for stripe, places in by_stripe(messages, self._striped).items():
            found = self._find(stripe, len(places))
            if found is not None:
                for place in self._send(found, [messages[place] for place in places]):
                    accepted[places[place]] = True
        return accepted

    def _find(self, stripe: Stripe, messages: int) -> Stripe | None:
        """The stripe itself, or the first one of its queue where it does not exist; None if there is no such queue."""
        if stripe in self._queues:
            return stripe
        if stripe.number:
            log_detour(stripe, messages, "there is no such queue")
            return self._find(Stripe(stripe.queue), messages)
        log_refusal(str(stripe.queue), messages, "there is no such queue")
        return None

    def _send(self, stripe: Stripe, messages: Sequence[OutgoingMessage]) -> Collection[int]:
        """Send to one stripe: the places of the messages that were accepted."""
        bodies = [each.message.encode() for each in messages]
        return self._calls.many(
            "SendMessageBatch",
            work_suffix(*stripe),
            "send",
            [each.message.run for each in messages],
            lambda i: self._queues[stripe].put(bodies[i], messages[i].delay),
            cut=lambda places: cut_by_size(places, lambda i: len(bodies[i].encode())),
        )

    def load(self, queues: Collection[str | None]) -> dict[str | None, Sequence[QueueDepth]]:
        def count() -> dict[str | None, Sequence[QueueDepth]]:
            return {queue: self._loads(queue) for queue in queues}

        return self._calls.one("GetQueueAttributes", "work", "load", count)

    def _loads(self, queue: str | None) -> list[QueueDepth]:
        stripes = (Stripe(queue, number) for number in range(self._striped.get(queue, 1)))
        return [self._queues[stripe].load() for stripe in stripes if stripe in self._queues]

    def survey(self) -> Mapping[str | None, Sequence[QueueDepth | None]]:
        found: dict[str | None, list[QueueDepth | None]] = {}
        for stripe in self._calls.one("ListQueues", "work", "survey", lambda: sorted(self._queues, key=_order)):
            queue = found.setdefault(stripe.queue, [])
            try:
                depth = self._calls.one("GetQueueAttributes", work_suffix(*stripe), "depth", self._queues[stripe].load)
            except Unavailable:
                queue.append(None)
            else:
                queue.append(depth)
        return found

    def names(self) -> Sequence[str]:
        def declared() -> list[str]:
            return sorted({queue for queue, _ in self._queues if queue is not None})

        return self._calls.one("ListQueues", "work", "names", declared)

    def receive(self, *, most: int, wait: float, visibility: int, stripe: int = 0) -> Sequence[RawMessage]:
        place, queue = work_suffix(self._consumes, stripe), self._queues[Stripe(self._consumes, stripe)]
        found = self._receiver.receive(queue, place, most, wait, visibility)
        return [replace(each, receipt=held(each.receipt, stripe)) for each in found]

    def hide(self, receipts: Sequence[str], seconds: int) -> None:
        hidden = min(max(seconds, 0), MAX_VISIBILITY)
        self._each("ChangeMessageVisibilityBatch", "hide", receipts, lambda queue, receipt: queue.hide(receipt, hidden))

    def delete(self, receipt: str) -> None:
        ((stripe, (own,)),) = receipts_by_stripe([receipt]).items()
        queue = self._queues[Stripe(self._consumes, stripe)]
        place = work_suffix(self._consumes, stripe)
        self._calls.one("DeleteMessage", place, "delete", lambda: queue.delete(own), receipt)

    def erase(self, receipts: Sequence[str]) -> None:
        self._each("DeleteMessageBatch", "erase", receipts, lambda queue, receipt: queue.delete(receipt))

    def _each(
        self, operation: str, verb: str, receipts: Sequence[str], do: Callable[[MemoryQueue, str], object]
    ) -> None:
        """Batches for each stripe. Raises Unavailable if messages were throttled; the caller repeats."""
        throttled = 0
        for stripe, own in receipts_by_stripe(receipts).items():
            queue, place = self._queues[Stripe(self._consumes, stripe)], work_suffix(self._consumes, stripe)
            effects = [partial(do, queue, receipt) for receipt in own]
            done = self._calls.many(operation, place, verb, own, partial(_run, effects), most=BATCH, rounds=1)
            throttled += len(own) - len(done)
        if throttled:
            raise Unavailable(f"{operation}: {throttled} messages were throttled")


def _order(stripe: Stripe) -> tuple[str, int]:
    return stripe.queue or "", stripe.number


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
