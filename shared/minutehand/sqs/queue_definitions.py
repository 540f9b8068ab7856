"""The queues as data: the CDK stack, the local cloud and the tests create the queues from these definitions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from minutehand.domain.queue import MOST_SECONDS, Queue

RETENTION = 14 * 86_400  # seconds: the longest that SQS keeps a message
MAX_RECEIVES = 1_000  # the worker settles failures; SQS moves only messages whose runs cannot be leased


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


def stripe_called(name: str) -> int:
    """The stripe behind the name of an SQS work queue."""
    number = name.rpartition("_")[2] if "_" in name else ""
    return int(number) if number.isdigit() else 0


def all_queues(declared: Iterable[Queue] = (), *, stripes: int = 1) -> tuple[SqsQueue, ...]:
    """The SQS queues of an installation in an order in which they can be created; ``stripes`` of the default queue."""
    return (
        *QUEUES,
        *_striped(None, stripes, since=1),
        *(q for each in declared for q in _striped(each.name, each.stripes)),
    )


def _striped(queue: str | None, stripes: int, *, since: int = 0) -> Iterator[SqsQueue]:
    return (replace(WORK, suffix=work_suffix(queue, stripe)) for stripe in range(since, stripes))
