"""What the work queues of SQS and of memory have in common: lanes, whose turn it is to be polled, missing SQS queues."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import cycle

from quarterjack.domain.policies import Priority
from quarterjack.domain.queue import MOST_STRIPES, PLAIN, lanes
from quarterjack.ports.queues import RawMessage
from quarterjack.sqs.stripes import Stripe, Stripes
from quarterjack.values import replace

log = logging.getLogger(__name__)

_POLL_OF_SOME = 1.0  # seconds of a long poll of one stripe by a poller that has others to poll


class StripedQueue(ABC):
    """The part of a ``WorkQueue`` that is the same whatever its SQS queues are.

    It knows of ``stripes``, and receives from the declared queue ``consumes``; None: the default one. ``low_age`` in ms.
    """

    def __init__(self, stripes: Stripes, *, consumes: str | None, low_age: int) -> None:
        self._stripes, self._consumes, self.low_age = stripes, consumes, low_age
        self._turns: dict[tuple[Priority, int, int], tuple[bool, Iterator[Stripe]]] = {}

    @property
    def width(self) -> int:
        return self._stripes.of(self._consumes)

    @property
    def lanes(self) -> Sequence[Priority]:
        return self.lanes_of(self._consumes)

    def lanes_of(self, queue: str | None) -> Sequence[Priority]:
        return lanes(priorities=queue in self._stripes.prioritised)

    def discover(self) -> None:
        own, known = self._consumes, self._stripes
        there = next((n for n in range(1, MOST_STRIPES) if not self._exists(Stripe(own, n))), MOST_STRIPES)
        has_lanes = all(self._exists(Stripe(own, 0, lane)) for lane in Priority if lane not in PLAIN)
        self._stripes = Stripes(
            numbers={**known.numbers, own: max(there, self.width)},
            prioritised=known.prioritised | {own} if has_lanes else known.prioritised,
        )
        self._turns.clear()

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
        several, turn = self._turns.get((lane, poller, pollers)) or self._turn(lane, poller, pollers)
        stripe = next(turn)
        found = self._receive(stripe, most, min(wait, _POLL_OF_SOME) if several else wait, visibility)
        if not stripe.tail:
            return found
        return [replace(each, receipt=stripe.marked(each.receipt), lane=lane) for each in found]

    def _turn(self, lane: Priority, poller: int, pollers: int) -> tuple[bool, Iterator[Stripe]]:
        """Whether a poller has several SQS queues, and these in turn without end."""
        own = [Stripe(self._consumes, number, lane) for number in range(poller, self.width, pollers)]
        return self._turns.setdefault((lane, poller, pollers), (len(own) > 1, cycle(own)))

    @abstractmethod
    def _exists(self, stripe: Stripe) -> bool:
        """Whether this SQS queue exists. Raises Unavailable."""

    @abstractmethod
    def _receive(self, stripe: Stripe, most: int, wait: float, visibility: int) -> Sequence[RawMessage]:
        """Receive from one SQS queue, as ``receive``."""


def log_detour(stripe: Stripe, messages: int, problem: object) -> None:
    """An SQS queue accepted nothing, so its messages make a detour: this process knows of more stripes or lanes than there are."""
    what: dict[str, object] = {"queue": stripe.queue, "stripe": stripe.number, "priority": str(stripe.priority)}
    what |= {"messages": messages, "error": str(problem)}
    log.warning("stripe.missing", extra=what)


def log_refusal(queue: str, messages: int, problem: object) -> None:
    """A declared queue accepted nothing: it does not exist, or this process may not send to it."""
    log.error("queue.refused", extra={"queue": queue, "messages": messages, "error": str(problem)})
