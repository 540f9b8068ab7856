"""The SQS queues that a work queue consists of: which there are, their names, and which of them a message takes.

A lane (a priority of its own) is as many SQS queues as the queue has stripes. A stripe is an SQS queue with 120,000 messages in flight at
most. The rest of the package speaks of one work queue by its name; only this package knows that it is several. The run's key decides on
the stripe, not its owner's, so that the runs of one crowded schedule or backfill use all stripes. Each stripe distributes its messages by
message group, so that no tenant delays another.

| a sender knows of                        | its messages go to                                         |
|------------------------------------------|------------------------------------------------------------|
| fewer stripes than there are, no lanes   | the stripes that it knows; the normal lane                 |
| a stripe or lane that does not exist     | the first stripe, the normal lane, which always exist      |

So stripes and lanes may be added while processes run.

A declared queue that does not exist (removed from the code while schedules still name it) accepts nothing. Its runs wait in the agenda
or in the ledger until it is declared again or they are cancelled. They are not sent elsewhere, because a queue promises memory and
concurrency that no other queue has. Messages to other queues are sent.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from quarterjack.domain.names import RunRef
from quarterjack.domain.policies import Priority
from quarterjack.domain.queue import (
    DEFAULT_QUEUE,
    MOST_STRIPES,
    Queue,
    check_queue,
    declared_name,
    is_queue,
    lanes,
    part_named,
    prioritised,
    prioritised_text,
)
from quarterjack.errors import Misconfigured
from quarterjack.ports.queues import OutgoingMessage, WorkDepth
from quarterjack.sqs.routing import DEAD, WORK, SqsQueue
from quarterjack.state.backpressure import QueueDepth
from quarterjack.values import replace

_MARK = "~"  # in no receipt of SQS
_TAIL = re.compile(r"(?:_(high|low))?(?:_([1-9]\d*))?$")  # of the name of a work queue: its lane and its stripe


class Stripe(NamedTuple):
    """One of the SQS queues of a work queue: of one of its lanes, one of its stripes."""

    queue: str | None  # a declared queue; None: the default one
    number: int = 0  # 0, 1, 2 …
    priority: Priority = Priority.NORMAL  # whose lane it belongs to

    @property
    def suffix(self) -> str:
        """Its name after the prefix. The first stripe of the normal lane has the queue's name, so that lanes and stripes can be added."""
        return (WORK.suffix if self.queue is None else f"{WORK.suffix}-{self.queue}") + self.tail

    @property
    def tail(self) -> str:
        """The end of its name, after that of the queue, which has no ``_``; empty for the first stripe of the normal lane."""
        lane = "" if self.priority is Priority.NORMAL else f"_{self.priority}"
        return f"{lane}_{self.number}" if self.number else lane

    @property
    def order(self) -> tuple[str, int, int]:
        """Sorts the normal lane before the others, so that the first is the queue's own."""
        return self.queue or "", -1 if self.priority is Priority.NORMAL else self.priority.rank, self.number

    @property
    def detour(self) -> Stripe | None:
        """Where its messages go if it does not exist: the normal lane, and there the first stripe; None: nowhere."""
        if self.priority is not Priority.NORMAL:
            return self._replace(priority=Priority.NORMAL)
        return self._replace(number=0) if self.number else None

    def marked(self, receipt: str) -> str:
        """A receipt from it, for ``by_receipt``; unchanged for the first stripe of the normal lane."""
        return f"{_MARK}{self.tail}{_MARK}{receipt}" if self.tail else receipt

    def depth(self, depth: QueueDepth | None) -> WorkDepth:
        return WorkDepth(queue=self.queue, number=self.number, priority=self.priority, depth=depth)


def stripes_of(queue: str | None, number: int, *, priorities: bool) -> Iterator[Stripe]:
    """The SQS queues of a queue, its own first."""
    found = (Stripe(queue, each, lane) for lane in lanes(priorities=priorities) for each in range(number))
    return iter(sorted(found, key=lambda each: each.order))


def stripe_of(run: RunRef, stripes: int) -> int:
    """The stripe of its queue for a run's messages: the same for every message and every sender."""
    return zlib.crc32(str(run).encode()) % stripes if stripes > 1 else 0


def stripe_named(suffix: str) -> Stripe | None:
    """The reverse of ``Stripe.suffix``, after the name of the default queue; None for a queue that is no work queue."""
    stripe = stripe_called(suffix)
    name = suffix.partition("_")[0]
    if name + stripe.tail != suffix:
        return None
    if name and not (name.startswith("-") and is_queue(name[1:])):
        return None
    return stripe._replace(queue=name[1:] or None)


def stripe_called(name: str) -> Stripe:
    """The lane and stripe at the end of the name of an SQS work queue; the name of its queue is not read."""
    found = _TAIL.search(name)
    lane, number = (None, None) if found is None else found.groups()
    return Stripe(None, int(number or 0), Priority(lane or Priority.NORMAL))


def by_receipt(receipts: Iterable[str], queue: str | None) -> dict[Stripe, list[str]]:
    """Marked receipts of a queue for each of its SQS queues, as SQS gave them."""
    found: dict[str, list[str]] = {}
    for receipt in receipts:
        tail, _, own = receipt[1:].partition(_MARK) if receipt.startswith(_MARK) else ("", "", receipt)
        found.setdefault(tail, []).append(own)
    return {stripe_called(tail)._replace(queue=queue): own for tail, own in found.items()}


def all_queues(declared: Iterable[Queue] = (), *, stripes: int = 1, priorities: bool = False) -> tuple[SqsQueue, ...]:
    """The SQS queues of an installation in an order in which they can be created; ``stripes`` and lanes of the default queue."""
    found = [*stripes_of(None, stripes, priorities=priorities)]
    found += [stripe for q in declared for stripe in stripes_of(q.name, q.stripes, priorities=q.priorities)]
    return (DEAD, *(replace(WORK, suffix=stripe.suffix) for stripe in found))


@dataclass(frozen=True, kw_only=True)
class Stripes:
    """The SQS queues of work that a process knows of. Its keys are names of declared queues; None is the default queue."""

    numbers: Mapping[str | None, int] = field(default_factory=dict)  # of stripes; 1 for a queue that is not listed
    prioritised: frozenset[str | None] = frozenset()  # queues with lanes

    @classmethod
    def parse(cls, stripes: str | None, priorities: str | None) -> Self:
        """From the texts of QUARTERJACK_STRIPES and QUARTERJACK_PRIORITIES. Raises Misconfigured, which names the variable."""
        return cls(numbers=striped(stripes), prioritised=prioritised(priorities))

    @classmethod
    def of_names(cls, suffixes: Iterable[str]) -> Self:
        """From the names of all SQS queues of work, without their prefix."""
        found = [stripe for each in suffixes if (stripe := stripe_named(each.removeprefix(WORK.suffix))) is not None]
        numbers: dict[str | None, int] = {}
        for stripe in found:
            numbers[stripe.queue] = max(numbers.get(stripe.queue, 1), stripe.number + 1)
        return cls(
            numbers=numbers,
            prioritised=frozenset(stripe.queue for stripe in found if stripe.priority is not Priority.NORMAL),
        )

    def declared(self, queues: Iterable[Queue]) -> Stripes:
        """With those of declared queues."""
        return Stripes(
            numbers={**self.numbers, **{queue.name: queue.stripes for queue in queues if queue.stripes > 1}},
            prioritised=self.prioritised | {queue.name for queue in queues if queue.priorities},
        )

    @property
    def texts(self) -> tuple[str | None, str | None]:
        """The values of QUARTERJACK_STRIPES and QUARTERJACK_PRIORITIES; None where the variable is not needed."""
        several = (f"{name or DEFAULT_QUEUE}={number}" for name, number in self.numbers.items() if number > 1)
        return ",".join(several) or None, prioritised_text(self.prioritised)

    def of(self, queue: str | None) -> int:
        """The number of stripes of a queue."""
        return self.numbers.get(queue, 1)

    def of_part(self, part: str | None) -> list[Stripe]:
        """The SQS queues of a part, as ``held_part`` names it. A queue without lanes is not divided: each of its names is all of it."""
        queue, lane = part_named(part)
        found = stripes_of(queue, self.of(queue), priorities=queue in self.prioritised)
        return [stripe for stripe in found if queue not in self.prioritised or stripe.priority is lane]

    def places(self, messages: Sequence[OutgoingMessage]) -> dict[Stripe, list[int]]:
        """The indexes of the messages for each SQS queue."""
        places: dict[Stripe, list[int]] = {}
        for place, outgoing in enumerate(messages):
            queue = outgoing.message.queue
            number = stripe_of(outgoing.message.run, self.of(queue))
            lane = outgoing.message.priority if queue in self.prioritised else Priority.NORMAL
            places.setdefault(Stripe(queue, number, lane), []).append(place)
        return places


def striped(text: str | None) -> Mapping[str | None, int]:
    """Queues with several stripes and their number, from a text as ``default=4,reports=2``. None is the default queue.

    Raises Misconfigured, which names the variable QUARTERJACK_STRIPES.
    """
    parts = [part.partition("=") for part in text.split(",")] if text else []
    try:
        found = {declared_name(check_queue(name.strip())): int(number) for name, _, number in parts}
    except ValueError as problem:
        raise Misconfigured(f"QUARTERJACK_STRIPES={text!r}: {problem}; use default=4,reports=2") from problem
    if not all(1 <= number <= MOST_STRIPES for number in found.values()):
        raise Misconfigured(f"QUARTERJACK_STRIPES={text!r} is out of range; use 1 to {MOST_STRIPES} for each queue")
    return found
