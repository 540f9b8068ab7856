"""The SQS queues of an installation as data, and the limits of SQS's requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from quarterjack.domain.queue import MOST_SECONDS

BATCH = 10  # messages of one request
MAX_VISIBILITY = 43_200  # seconds
RETENTION = 14 * 86_400  # seconds: the longest that SQS keeps a message
MAX_RECEIVES = 1_000  # the worker settles failures; SQS moves only messages whose runs cannot be leased
_BATCH_BYTES = 1_000_000  # of the 1 MiB of one request; the rest is for the entries' other fields

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
