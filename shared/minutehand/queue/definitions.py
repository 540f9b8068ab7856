"""The queues as data: the CDK stack, the local cloud and the tests create them from these very definitions."""

from __future__ import annotations

import json
from dataclasses import dataclass

RETENTION = 14 * 86_400  # seconds: the longest that SQS keeps a message
MAX_RECEIVES = 1_000  # the worker settles what fails; SQS moves only what cannot even be leased


@dataclass(frozen=True, kw_only=True)
class Queue:
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


DEAD = Queue(suffix="dead", visibility=360)
WORK = Queue(suffix="work", visibility=5_400, dead_letters="dead")
QUEUES = (DEAD, WORK)  # in the order in which they can be created
