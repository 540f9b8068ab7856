"""Routing: every message goes to the queue that it names, and within it to the stripe that its run's key falls on.

A stripe is an SQS queue of its own: together they have as many times 120,000 messages in flight. The run's key decides, not its
owner's, so that one crowded schedule or backfill is spread too; that no tenant keeps the others waiting is SQS's part, which shares each
stripe out by message group. Who sends and knows of fewer stripes than there are sends to those; who knows of more finds one that is
not there and sends to the first, which always is. So stripes may be added at any time, and nothing depends on everybody knowing at once.

A queue that is named but not there (taken out of the code while schedules still name it) takes nothing: its messages count as not
accepted, so their runs wait where they are, in the agenda or in the ledger, until it is declared again or they are cancelled. They are
not sent elsewhere: a queue is a promise about memory and concurrency, which no other queue keeps. The others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from minutehand.domain.names import stripe_of
from minutehand.ports.work_queue import OutgoingMessage

log = logging.getLogger(__name__)

_MARK = "~"  # in no receipt of SQS's


class Stripe(NamedTuple):
    """One of the SQS queues of a queue."""

    queue: str | None  # a declared queue; None: the default one
    number: int = 0  # 0, 1, 2 …


def by_stripe(parcels: Sequence[OutgoingMessage], stripes: Mapping[str | None, int]) -> dict[Stripe, list[int]]:
    """The places of the parcels for each stripe. ``stripes`` says how many a queue has, where it has more than one."""
    places: dict[Stripe, list[int]] = {}
    for place, parcel in enumerate(parcels):
        queue = parcel.message.queue
        number = stripe_of(parcel.message.run, stripes.get(queue, 1))
        places.setdefault(Stripe(queue, number), []).append(place)
    return places


def held(receipt: str, stripe: int) -> str:
    """A receipt that says which stripe it is of, for whoever takes from several."""
    return f"{_MARK}{stripe}{_MARK}{receipt}" if stripe else receipt


def holder(receipt: str) -> tuple[int, str]:
    """The stripe that a receipt is of, and the receipt as SQS gave it."""
    if not receipt.startswith(_MARK):
        return 0, receipt
    number, _, own = receipt[1:].partition(_MARK)
    return int(number), own


def note_refusal(queue: str, messages: int, problem: object) -> None:
    """A declared queue took nothing: it is not there, or this process may not send to it."""
    log.error("queue.refused", extra={"queue": queue, "messages": messages, "error": str(problem)})


def note_detour(stripe: Stripe, messages: int, problem: object) -> None:
    """A stripe took nothing, so its messages go to the first: this process knows of more stripes than there are."""
    what = {"queue": stripe.queue, "stripe": stripe.number, "messages": messages, "error": str(problem)}
    log.warning("stripe.missing", extra=what)
