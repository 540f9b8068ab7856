"""A queue in memory with the guarantees of SQS: delay, visibility, receipts, receive counts, redrive; at least once, in any order."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from quarterjack.domain.times import SECOND
from quarterjack.ports.queues import RawMessage
from quarterjack.ports.services import Clock
from quarterjack.sqs.routing import MAX_RECEIVES, MAX_VISIBILITY, RETENTION
from quarterjack.state.backpressure import QueueDepth

IN_FLIGHT = 120_000  # messages received and not yet deleted; above it SQS delivers nothing, without an error


@dataclass(eq=False)
class Stored:
    """A message in a queue."""

    id: str
    body: str
    sent_at: int  # UTC ms; kept when it moves to the dead-letter queue
    visible_at: int  # UTC ms
    received_at: int = 0  # UTC ms of the latest delivery
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
        # Heap by the time at which a message becomes visible; outdated entries are skipped.
        self._hidden: list[tuple[int, int, Stored]] = []
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
        """Move messages that have become visible, and delete those older than the retention."""
        now = self._clock()
        while self._hidden and self._hidden[0][0] <= now:
            at, number, message = heapq.heappop(self._hidden)
            if self._is_current(at, number, message):
                self._in_flight.discard(message.id)
                self._shown[message.id] = message
        for message in [m for m in self._shown.values() if now - m.sent_at > RETENTION * SECOND]:
            self._forget(message)

    def _deliver(self, message: Stored, visibility: int) -> RawMessage:
        message.receives += 1
        message.receipt = f"r{next(self._numbers)}"
        message.received_at = self._clock()
        message.visible_at = message.received_at + visibility * SECOND
        self._receipts[message.receipt] = message.id
        self._keep(message)
        self._in_flight.add(message.id)
        return RawMessage(
            body=message.body,
            receipt=message.receipt,
            receives=message.receives,
            id=message.id,
            sent_at=message.sent_at,
        )

    def _move(self, message: Stored, to: MemoryQueue) -> None:
        self._forget(message)
        to._keep(Stored(message.id, message.body, sent_at=message.sent_at, visible_at=self._clock()))

    def _forget(self, message: Stored) -> None:
        self._messages.pop(message.id, None)
        self._shown.pop(message.id, None)
        self._in_flight.discard(message.id)
        self._receipts.pop(message.receipt, None)

    def _find(self, receipt: str) -> Stored | None:
        message = self._messages.get(self._receipts.get(receipt, ""))
        return message if message is not None and message.receipt == receipt else None

    def hide(self, receipt: str, seconds: int) -> bool:
        """Hide a message in flight from now; False if it is not in flight under this receipt, or would be for more than 12 hours."""
        self._show()
        message = self._find(receipt)
        if message is None or message.id not in self._in_flight:
            return False
        visible_at = self._clock() + seconds * SECOND
        if visible_at > message.received_at + MAX_VISIBILITY * SECOND:
            return False
        message.visible_at = visible_at
        self._keep(message)
        return True

    def delete(self, receipt: str) -> None:
        """Delete a message; a receipt that is not its latest has no effect."""
        message = self._find(receipt)
        if message is not None:
            self._forget(message)

    def purge(self) -> int:
        """Delete all messages, those that are delayed or in flight included, as SQS's PurgeQueue; how many."""
        gone = list(self)
        for message in gone:
            self._forget(message)
        return len(gone)

    def hold_back(self, message: Stored, seconds: int) -> None:
        """Deliver a message this many seconds later than its sender asked for, as SQS may."""
        message.visible_at += seconds * SECOND
        self._keep(message)

    def load(self) -> QueueDepth:
        """The numbers of messages that are visible, in flight and delayed."""
        self._show()
        waiting, at_hand = len(self._shown), len(self._in_flight)
        return QueueDepth(waiting=waiting, at_hand=at_hand, delayed=len(self._messages) - waiting - at_hand)

    def next_visible(self) -> int | None:
        """When the next message can be received (UTC ms); None if there is none."""
        self._show()
        if self._shown:
            return min(message.visible_at for message in self._shown.values())
        while self._hidden and not self._is_current(*self._hidden[0]):
            heapq.heappop(self._hidden)
        return self._hidden[0][0] if self._hidden else None

    def _is_current(self, at: int, number: int, message: Stored) -> bool:
        """Whether an entry of the heap tells when its message becomes visible."""
        del number
        return self._messages.get(message.id) is message and message.visible_at == at

    def __iter__(self) -> Iterator[Stored]:
        return iter(list(self._messages.values()))

    def __len__(self) -> int:
        return len(self._messages)
