"""The SQS queues as data, and routing: each message goes to the queue that it names, there to the lane of its priority, and in that to a
stripe by its run's key.

A lane is as many SQS queues as the queue has stripes. A queue without lanes takes every priority, and so does a sender that does not know
of the lanes: the normal lane always exists.

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
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from quarterjack.domain.names import stripe_of
from quarterjack.domain.policies import Priority
from quarterjack.domain.queue import MOST_SECONDS, Queue, Stripe, is_queue, stripes_of
from quarterjack.ports.queues import OutgoingMessage

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
# The least that Lambda takes for functions of the longest timeout. AWS advises six times as much, for functions that hold messages as long
# as they run. The worker sets a visibility of its own as soon as its handler runs, so the queue's is what a batch waits whose function
# failed before that: an import that fails, a variable or key that is missing.
WORK = SqsQueue(suffix="work", visibility=MOST_SECONDS, dead_letters="dead")
QUEUES = (DEAD, WORK)  # in the order in which they can be created


_TAIL = re.compile(r"(?:_(high|low))?(?:_([1-9]\d*))?$")  # of the name of a work queue: its lane and its stripe


def work_suffix(queue: str | None, stripe: int = 0, priority: Priority = Priority.NORMAL) -> str:
    """The name, after the prefix, of the SQS queue of a declared queue's stripe in a lane; None: the default queue.

    The first stripe of the normal lane has the queue's name, so that lanes and stripes can be added. A queue's own name has no ``_``.
    """
    return (WORK.suffix if queue is None else f"{WORK.suffix}-{queue}") + tail_of(stripe, priority)


def tail_of(stripe: int, priority: Priority) -> str:
    """What the name of an SQS queue has after its queue's: nothing for the first stripe of the normal lane."""
    lane = "" if priority is Priority.NORMAL else f"_{priority}"
    return f"{lane}_{stripe}" if stripe else lane


def stripe_named(suffix: str) -> Stripe | None:
    """The reverse of ``work_suffix``, after the name of the default queue; None for a queue that is no work queue."""
    stripe = stripe_called(suffix)
    name = suffix.partition("_")[0]
    if name + tail_of(stripe.number, stripe.priority) != suffix:
        return None
    if name and not (name.startswith("-") and is_queue(name[1:])):
        return None
    return stripe._replace(queue=name[1:] or None)


def stripe_called(name: str) -> Stripe:
    """The lane and stripe that the name of an SQS work queue ends with, of a queue that is not looked for in it."""
    found = _TAIL.search(name)
    lane, number = (None, None) if found is None else found.groups()
    return Stripe(None, int(number or 0), Priority(lane or Priority.NORMAL))


def all_queues(declared: Iterable[Queue] = (), *, stripes: int = 1, priorities: bool = False) -> tuple[SqsQueue, ...]:
    """The SQS queues of an installation in an order in which they can be created; ``stripes`` and lanes of the default queue."""
    found = [*stripes_of(None, stripes, priorities=priorities)]
    found += [stripe for q in declared for stripe in stripes_of(q.name, q.stripes, priorities=q.priorities)]
    return (DEAD, *(replace(WORK, suffix=work_suffix(*stripe)) for stripe in found))


def by_stripe(
    messages: Sequence[OutgoingMessage], stripes: Mapping[str | None, int], prioritised: Collection[str | None] = ()
) -> dict[Stripe, list[int]]:
    """The indexes of the messages for each SQS queue.

    ``stripes`` has the number of stripes of queues with more than one, ``prioritised`` the queues with lanes.
    """
    places: dict[Stripe, list[int]] = {}
    for place, outgoing in enumerate(messages):
        queue = outgoing.message.queue
        number = stripe_of(outgoing.message.run, stripes.get(queue, 1))
        lane = outgoing.message.priority if queue in prioritised else Priority.NORMAL
        places.setdefault(Stripe(queue, number, lane), []).append(place)
    return places


def detour(stripe: Stripe) -> Stripe | None:
    """Where the messages for a missing SQS queue go: to the normal lane, and there to the first stripe; None: nowhere."""
    if stripe.priority is not Priority.NORMAL:
        return stripe._replace(priority=Priority.NORMAL)
    return stripe._replace(number=0) if stripe.number else None


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


def held(receipt: str, stripe: Stripe) -> str:
    """A receipt with its lane and stripe, for consumers of several; without them for the first stripe of the normal lane."""
    tail = tail_of(stripe.number, stripe.priority)
    return f"{_MARK}{tail}{_MARK}{receipt}" if tail else receipt


def receipts_by_stripe(receipts: Iterable[str], queue: str | None) -> dict[Stripe, list[str]]:
    """Marked receipts for each SQS queue of a queue, as SQS gave them."""
    found: dict[Stripe, list[str]] = {}
    for receipt in receipts:
        tail, _, own = receipt[1:].partition(_MARK) if receipt.startswith(_MARK) else ("", "", receipt)
        found.setdefault(stripe_called(tail)._replace(queue=queue), []).append(own)
    return found


def log_refusal(queue: str, messages: int, problem: object) -> None:
    """A declared queue accepted nothing: it does not exist, or this process may not send to it."""
    log.error("queue.refused", extra={"queue": queue, "messages": messages, "error": str(problem)})


def log_detour(stripe: Stripe, messages: int, problem: object) -> None:
    """An SQS queue accepted nothing, so its messages make a detour: this process knows of more stripes or lanes than there are."""
    what: dict[str, object] = {"queue": stripe.queue, "stripe": stripe.number, "priority": str(stripe.priority)}
    what |= {"messages": messages, "error": str(problem)}
    log.warning("stripe.missing", extra=what)
