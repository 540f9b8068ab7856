"""Routing: each message goes to the queue that it names, and there to a stripe by its run's key.

A stripe is an SQS queue of its own, with 120,000 messages in flight at most. The run's key decides, not its owner's, so that the runs of
one crowded schedule or backfill use all stripes. Each stripe shares its messages out by message group, so that no tenant delays another.
A sender that knows of too few stripes uses those. A sender that knows of too many sends to the first stripe, which always exists,
instead of a missing one. So stripes may be added while processes run.

A declared queue that does not exist (removed from the code while schedules still name it) accepts nothing. Its runs wait in the agenda
or in the ledger until it is declared again or they are cancelled. They are not sent elsewhere, because a queue promises memory and
concurrency that no other queue has. Messages to other queues are sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from minutehand.domain.names import stripe_of
from minutehand.ports.work_queue import OutgoingMessage

log = logging.getLogger(__name__)

BATCH = 10  # messages of one request
MAX_VISIBILITY = 43_200  # seconds
_BATCH_BYTES = 1_000_000  # of the 1 MiB of one request; the rest is for the entries' other fields
_MARK = "~"  # in no receipt of SQS

_T = TypeVar("_T")


class Stripe(NamedTuple):
    """One of the SQS queues of a queue."""

    queue: str | None  # a declared queue; None: the default one
    number: int = 0  # 0, 1, 2 …


def by_stripe(messages: Sequence[OutgoingMessage], stripes: Mapping[str | None, int]) -> dict[Stripe, list[int]]:
    """The indexes of the messages for each stripe. ``stripes`` has the number of stripes of queues with more than one."""
    places: dict[Stripe, list[int]] = {}
    for place, outgoing in enumerate(messages):
        queue = outgoing.message.queue
        number = stripe_of(outgoing.message.run, stripes.get(queue, 1))
        places.setdefault(Stripe(queue, number), []).append(place)
    return places


def cut_by_size(items: Iterable[_T], size: Callable[[_T], int]) -> list[list[_T]]:
    """Batches of at most BATCH messages, and less than 1 MiB. ``size`` of an item in bytes."""
    batches: list[list[_T]] = []
    filled = 0
    for item in items:
        weight = size(item)
        if not batches or len(batches[-1]) == BATCH or filled + weight > _BATCH_BYTES:
            batches.append([])
            filled = 0
        batches[-1].append(item)
        filled += weight
    return batches


def held(receipt: str, stripe: int) -> str:
    """A receipt with the number of its stripe, for consumers of several; without it for the first stripe."""
    return f"{_MARK}{stripe}{_MARK}{receipt}" if stripe else receipt


def receipts_by_stripe(receipts: Iterable[str]) -> dict[int, list[str]]:
    """Marked receipts for each stripe, as SQS gave them."""
    found: dict[int, list[str]] = {}
    for receipt in receipts:
        number, _, own = receipt[1:].partition(_MARK) if receipt.startswith(_MARK) else ("0", "", receipt)
        found.setdefault(int(number), []).append(own)
    return found


def log_refusal(queue: str, messages: int, problem: object) -> None:
    """A declared queue accepted nothing: it does not exist, or this process may not send to it."""
    log.error("queue.refused", extra={"queue": queue, "messages": messages, "error": str(problem)})


def log_detour(stripe: Stripe, messages: int, problem: object) -> None:
    """A stripe accepted nothing, so its messages go to the first: this process knows of more stripes than there are."""
    what = {"queue": stripe.queue, "stripe": stripe.number, "messages": messages, "error": str(problem)}
    log.warning("stripe.missing", extra=what)
