"""The SQS queues as data, and routing: each message goes to the queue that it names, and there to a stripe by its run's key.

A stripe is an SQS queue of its own, with 120,000 messages in flight at most. The run's key decides, not its owner's, so that the runs of
one crowded schedule or backfill use all stripes. Each stripe shares its messages out by message group, so that no tenant delays another.
A sender that knows of too few stripes uses those. A sender that knows of too many sends to the first stripe, which always exists,
instead of a missing one. So stripes may be added while processes run.

A declared queue that does not exist (removed from the code while schedules still name it) accepts nothing. Its runs wait in the agenda
or in the ledger until it is declared again or they are cancelled. They are not sent elsewhere, because a queue promises memory and
concurrency that no other queue has. Messages to other queues are sent.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from minutehand.domain.names import stripe_of
from minutehand.domain.queue import MOST_SECONDS, Queue, is_queue
from minutehand.ports.work_queue import OutgoingMessage

log = logging.getLogger(__name__)

BATCH = 10  # messages of one request
MAX_VISIBILITY = 43_200  # seconds
RETENTION = 14 * 86_400  # seconds: the longest that SQS keeps a message
MAX_RECEIVES = 1_000  # the worker settles failures; SQS moves only messages whose runs cannot be leased
_BATCH_BYTES = 1_000_000  # of the 1 MiB of one request; the rest is for the entries' other fields
_MARK = "~"  # in no receipt of SQS

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class SqsQueue:
    """A standard SQS queue."""

    suffix: str  # its name is `<prefix>-<suffix>`
    visibility: int  # seconds: at least the timeout of the function that reads it
    retention: int = RETENTION  # seconds
    dead_letters: str | None = None  # suffix of the queue that SQS moves poison messages to

    def attributes(self, dead_letter_arn: str | None = None) -> dict[str, str]:
        """The attributes of ``create_queue``."""
        attributes = {"VisibilityTimeout": str(self.visibility), "MessageRetentionPeriod": str(self.retention)}
        if dead_letter_arn is not None:
            policy = {"deadLetterTargetArn": dead_letter_arn, "maxReceiveCount": MAX_RECEIVES}
            attributes["RedrivePolicy"] = json.dumps(policy)
        return attributes


DEAD = SqsQueue(suffix="dead", visibility=360)
WORK = SqsQueue(suffix="work", visibility=6 * MOST_SECONDS, dead_letters="dead")  # as AWS advises: Lambda may repeat
QUEUES = (DEAD, WORK)  # in the order in which they can be created


def work_suffix(queue: str | None, stripe: int = 0) -> str:
    """The name, after the prefix, of the SQS queue of a declared queue's stripe; None: the default queue.

    The first stripe has the queue's name, so that stripes can be added. A queue's own name has no ``_``.
    """
    name = WORK.suffix if queue is None else f"{WORK.suffix}-{queue}"
    return f"{name}_{stripe}" if stripe else name


def stripe_named(suffix: str) -> Stripe | None:
    """The reverse of ``work_suffix``, after the name of the default queue; None for a queue that is no work queue."""
    name, mark, number = suffix.partition("_")
    if mark and not (number.isdecimal() and int(number)):
        return None
    if name and not (name.startswith("-") and is_queue(name[1:])):
        return None
    return Stripe(name[1:] or None, int(number or 0))


def stripe_called(name: str) -> int:
    """The stripe behind the name of an SQS work queue."""
    number = name.rpartition("_")[2] if "_" in name else ""
    return int(number) if number.isdecimal() else 0


def all_queues(declared: Iterable[Queue] = (), *, stripes: int = 1) -> tuple[SqsQueue, ...]:
    """The SQS queues of an installation in an order in which they can be created; ``stripes`` of the default queue."""
    return (
        *QUEUES,
        *_striped(None, stripes, since=1),
        *(q for each in declared for q in _striped(each.name, each.stripes)),
    )


def _striped(queue: str | None, stripes: int, *, since: int = 0) -> Iterator[SqsQueue]:
    return (replace(WORK, suffix=work_suffix(queue, stripe)) for stripe in range(since, stripes))


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
