"""Queues in memory, as SQS keeps its promises: delay, visibility, receipts, receive counts, redrive; at least once, in any order."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from minutehand.domain.formats.dead_letter import DeadLetter, encode_letter
from minutehand.domain.times import SECOND
from minutehand.errors import Unavailable
from minutehand.ports.clock import Clock
from minutehand.ports.work_queue import OutgoingMessage, RawMessage
from minutehand.sqs.queue_definitions import MAX_RECEIVES, RETENTION, work_suffix
from minutehand.sqs.routing import Stripe, by_stripe, held, holder, note_detour, note_refusal
from minutehand.state.backpressure import QueueDepth
from minutehand.testing.memory.calls import Calls, Detail, by_count

IN_FLIGHT = 120_000  # received and not yet deleted: past it nothing is delivered, without an error
BATCH = 10
BATCH_BYTES = 1_048_576
MAX_DELAY = 900  # seconds
MAX_VISIBILITY = 43_200  # seconds

Idle = Callable[[float], object]  # waits up to so many seconds for a message: a thread's wait, or a clock that moves on


@dataclass(eq=False)
class Stored:
    """A message in a queue."""

    id: str
    body: str
    sent_at: int  # UTC ms; kept when it moves to the dead-letter queue
    visible_at: int  # UTC ms
    receives: int = 0
    receipt: str = ""  # of the latest delivery: earlier ones have no effect


class MemoryQueue:
    """One standard queue. With ``random`` messages come in any order; without it, in the order in which they became visible."""

    def __init__(
        self, clock: Clock, *, visibility: int, dead: MemoryQueue | None = None, random: Random | None = None
    ) -> None:
        self._clock, self._visibility, self._dead, self._random = clock, visibility, dead, random
        self._messages: dict[str, Stored] = {}
        self._receipts: dict[str, str] = {}
        self._hidden: list[
            tuple[int, int, Stored]
        ] = []  # by the time at which they become visible; some entries are outdated
        self._shown: dict[str, Stored] = {}
        self._in_flight: set[str] = set()
        self._numbers = itertools.count()

    def put(self, body: str, delay: int = 0) -> Stored:
        """A message, visible after ``delay`` seconds."""
        now = self._clock()
        message = Stored(f"m{next(self._numbers)}", body, sent_at=now, visible_at=now + delay * SECOND)
        self._keep(message)
        return message

    def _keep(self, message: Stored) -> None:
        self._messages[message.id] = message
        self._shown.pop(message.id, None)
        heapq.heappush(self._hidden, (message.visible_at, next(self._numbers), message))

    def take(self, most: int, visibility: int | None = None) -> list[RawMessage]:
        """Deliver up to ``most`` visible messages and hide them for ``visibility`` seconds."""
        self._show()
        deliveries: list[RawMessage] = []
        while self._shown and len(deliveries) < most and len(self._in_flight) < IN_FLIGHT:
            message = self._shown.pop(self._choose())
            if message.receives >= MAX_RECEIVES and self._dead is not None:
                self._move(message, self._dead)
            else:
                deliveries.append(self._deliver(message, self._visibility if visibility is None else visibility))
        return deliveries

    def _choose(self) -> str:
        return next(iter(self._shown)) if self._random is None else self._random.choice(list(self._shown))

    def _show(self) -> None:
        """What has become visible; what is older than the retention is gone."""
        now = self._clock()
        while self._hidden and self._hidden[0][0] <= now:
            at, _, message = heapq.heappop(self._hidden)
            if self._messages.get(message.id) is message and message.visible_at == at:
                self._in_flight.discard(message.id)
                self._shown[message.id] = message
        for message in [m for m in self._shown.values() if now - m.sent_at > RETENTION * SECOND]:
            self._forget(message)

    def _deliver(self, message: Stored, visibility: int) -> RawMessage:
        message.receives += 1
        message.receipt = f"r{next(self._numbers)}"
        message.visible_at = self._clock() + visibility * SECOND
        self._receipts[message.receipt] = message.id
        self._keep(message)
        self._in_flight.add(message.id)
        return RawMessage(body=message.body, receipt=message.receipt, receives=message.receives, id=message.id)

    def _move(self, message: Stored, to: MemoryQueue) -> None:
        self._forget(message)
        to._keep(Stored(message.id, message.body, sent_at=message.sent_at, visible_at=self._clock()))

    def _forget(self, message: Stored) -> None:
        self._messages.pop(message.id, None)
        self._shown.pop(message.id, None)
        self._in_flight.discard(message.id)
        self._receipts.pop(message.receipt, None)

    def _held_by(self, receipt: str) -> Stored | None:
        message = self._messages.get(self._receipts.get(receipt, ""))
        return message if message is not None and message.receipt == receipt else None

    def hide(self, receipt: str, seconds: int) -> bool:
        """Hide a message in flight from now; False if it is not in flight under this receipt."""
        self._show()
        message = self._held_by(receipt)
        if message is None or message.id not in self._in_flight:
            return False
        message.visible_at = self._clock() + seconds * SECOND
        self._keep(message)
        return True

    def delete(self, receipt: str) -> None:
        """Delete a message; a receipt that is not its latest has no effect."""
        message = self._held_by(receipt)
        if message is not None:
            self._forget(message)

    def hold_back(self, message: Stored, seconds: int) -> None:
        """Let a message come so much later than its sender asked for, as SQS may."""
        message.visible_at += seconds * SECOND
        self._keep(message)

    def load(self) -> QueueDepth:
        """How many messages it holds, of each sort."""
        self._show()
        waiting, at_hand = len(self._shown), len(self._in_flight)
        return QueueDepth(waiting=waiting, at_hand=at_hand, delayed=len(self._messages) - waiting - at_hand)

    def next_visible(self) -> int | None:
        """When the next message can be received (UTC ms); None if there is none."""
        return min((message.visible_at for message in self._messages.values()), default=None)

    def __iter__(self) -> Iterator[Stored]:
        return iter(list(self._messages.values()))

    def __len__(self) -> int:
        return len(self._messages)


def _receive(
    calls: Calls,
    queue: MemoryQueue,
    place: str,
    clock: Clock,
    idle: Idle | None,
    most: int,
    wait: float,
    visibility: int | None,
) -> Sequence[RawMessage]:
    detail = Detail(place=place, verb="receive")
    found = calls.one("ReceiveMessage", detail, lambda: queue.take(max(1, min(most, BATCH)), visibility))
    if found or idle is None or wait <= 0:
        return found
    upcoming = queue.next_visible()
    left = wait if upcoming is None else min(wait, max(upcoming - clock(), 0) / SECOND)
    idle(left)
    return calls.one("ReceiveMessage", detail, lambda: queue.take(max(1, min(most, BATCH)), visibility))


class MemoryWorkQueue:
    """The work queues' port over their ``queues``; it receives from ``consumes`` and believes in these ``stripes``."""

    def __init__(
        self,
        calls: Calls,
        queues: Mapping[Stripe, MemoryQueue],
        clock: Clock,
        idle: Idle | None,
        *,
        consumes: str | None = None,
        stripes: Mapping[str | None, int],
    ) -> None:
        self._calls, self._queues, self._clock, self._idle = calls, queues, clock, idle
        self._consumes, self._striped = consumes, stripes

    @property
    def stripes(self) -> int:
        return self._striped.get(self._consumes, 1)

    def count_stripes(self) -> int:
        detail = Detail(place="work", verb="count_stripes")
        return self._calls.one(
            "GetQueueUrl", detail, lambda: sum(stripe.queue == self._consumes for stripe in self._queues)
        )

    def send(self, parcels: Sequence[OutgoingMessage]) -> Sequence[bool]:
        for parcel in parcels:
            if type(parcel.delay) is not int or not 0 <= parcel.delay <= MAX_DELAY:
                raise ValueError(f"DelaySeconds={parcel.delay!r}: SQS takes whole seconds from 0 to {MAX_DELAY}")
        accepted = [False] * len(parcels)
        for stripe, places in by_stripe(parcels, self._striped).items():
            found = self._find(stripe, len(places))
            if found is not None:
                for place in self._send(found, [parcels[place] for place in places]):
                    accepted[places[place]] = True
        return accepted

    def _find(self, stripe: Stripe, messages: int) -> Stripe | None:
        """Where what is for a stripe goes: there, or to the first; None if there is no such queue."""
        if stripe in self._queues:
            return stripe
        if stripe.number:
            note_detour(stripe, messages, "there is no such queue")
            return self._find(Stripe(stripe.queue), messages)
        note_refusal(str(stripe.queue), messages, "there is no such queue")
        return None

    def _send(self, stripe: Stripe, parcels: Sequence[OutgoingMessage]) -> Collection[int]:
        """To one stripe; the places of those that were accepted."""
        bodies = [parcel.message.encode() for parcel in parcels]
        detail = Detail(place=work_suffix(*stripe), verb="send", items=tuple(parcel.message.run for parcel in parcels))

        def batches(places: Sequence[int]) -> list[list[int]]:
            return _by_size(places, [len(body.encode()) for body in bodies])

        return self._calls.many(
            "SendMessageBatch", detail, lambda i: self._queues[stripe].put(bodies[i], parcels[i].delay), batches=batches
        )

    def load(self, queues: Collection[str | None]) -> dict[str | None, Sequence[QueueDepth]]:
        detail = Detail(place="work", verb="load")
        return self._calls.one("GetQueueAttributes", detail, lambda: {queue: self._loads(queue) for queue in queues})

    def _loads(self, queue: str | None) -> list[QueueDepth]:
        stripes = (Stripe(queue, number) for number in range(self._striped.get(queue, 1)))
        return [self._queues[stripe].load() for stripe in stripes if stripe in self._queues]

    def names(self) -> Sequence[str]:
        detail = Detail(place="work", verb="names")
        return self._calls.one(
            "ListQueues", detail, lambda: sorted({queue for queue, _ in self._queues if queue is not None})
        )

    def receive(self, *, most: int, wait: float, visibility: int, stripe: int = 0) -> Sequence[RawMessage]:
        place, queue = work_suffix(self._consumes, stripe), self._own(stripe)
        found = _receive(self._calls, queue, place, self._clock, self._idle, most, wait, visibility)
        return [replace(each, receipt=held(each.receipt, stripe)) for each in found]

    def _own(self, stripe: int) -> MemoryQueue:
        """A stripe of the queue that it takes from."""
        return self._queues[Stripe(self._consumes, stripe)]

    def hide(self, receipts: Sequence[str], seconds: int) -> None:
        for_so_long = min(max(seconds, 0), MAX_VISIBILITY)
        self._each(
            "ChangeMessageVisibilityBatch", "hide", receipts, lambda queue, receipt: queue.hide(receipt, for_so_long)
        )

    def delete(self, receipt: str) -> None:
        stripe, own = holder(receipt)
        detail = Detail(place=work_suffix(self._consumes, stripe), verb="delete", items=(receipt,))
        self._calls.one("DeleteMessage", detail, lambda: self._own(stripe).delete(own))

    def erase(self, receipts: Sequence[str]) -> None:
        self._each("DeleteMessageBatch", "erase", receipts, lambda queue, receipt: queue.delete(receipt))

    def _each(
        self, operation: str, verb: str, receipts: Sequence[str], do: Callable[[MemoryQueue, str], object]
    ) -> None:
        """Messages that are gone are passed over; a throttled one is the caller's to repeat."""
        by_number: dict[int, list[str]] = {}
        for stripe, own in map(holder, receipts):
            by_number.setdefault(stripe, []).append(own)
        throttled = sum(self._part(operation, verb, stripe, part, do) for stripe, part in by_number.items())
        if throttled:
            raise Unavailable(f"{operation}: {throttled} messages were throttled")

    def _part(
        self,
        operation: str,
        verb: str,
        stripe: int,
        receipts: Sequence[str],
        do: Callable[[MemoryQueue, str], object],
    ) -> int:
        """Those of one stripe; how many were throttled."""
        queue = self._own(stripe)
        detail = Detail(place=work_suffix(self._consumes, stripe), verb=verb, items=tuple(receipts))
        answers = self._calls.many(
            operation, detail, lambda i: do(queue, receipts[i]), batches=by_count(BATCH), rounds=1
        )
        return len(receipts) - len(answers)


def _by_size(places: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
    """Batches of at most BATCH messages and BATCH_BYTES."""
    result: list[list[int]] = []
    filled = 0
    for place in places:
        if not result or len(result[-1]) == BATCH or filled + sizes[place] > BATCH_BYTES:
            result.append([])
            filled = 0
        result[-1].append(place)
        filled += sizes[place]
    return result


class MemoryDeadQueue:
    """The dead-letter queue's port."""

    def __init__(self, calls: Calls, queue: MemoryQueue, clock: Clock, idle: Idle | None) -> None:
        self._calls, self._queue, self._clock, self._idle = calls, queue, clock, idle

    def send(self, letter: DeadLetter) -> None:
        detail = Detail(place="dead", verb="send", items=(letter.reason,))
        self._calls.one("SendMessage", detail, lambda: self._queue.put(encode_letter(letter)))

    def receive(self, *, most: int, wait: float) -> Sequence[RawMessage]:
        return _receive(self._calls, self._queue, "dead", self._clock, self._idle, most, wait, None)

    def delete(self, receipt: str) -> None:
        detail = Detail(place="dead", verb="delete", items=(receipt,))
        self._calls.one("DeleteMessage", detail, lambda: self._queue.delete(receipt))
