"""Drills of queues: the work queue is purged."""

from __future__ import annotations

import re
import time

from quarterjack.aws import Client

from tests.support.drills.siege import Drill, Siege

_PURGING = 4.0  # seconds: a purge removes what is sent meanwhile, too
_COUNTS = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed")


def _purge(siege: Siege) -> None:
    """Empty the work queue again and again, as a purge on AWS goes on for a while."""
    sqs = Client("sqs", siege.settings)
    url = sqs.call("get_queue_url", QueueName=siege.settings.queue("work"))["QueueUrl"]
    gone, until = 0, time.time() + _PURGING

    def is_over() -> bool:
        nonlocal gone
        counts = sqs.call("get_queue_attributes", QueueUrl=url, AttributeNames=list(_COUNTS))["Attributes"]
        gone += sum(map(int, counts.values()))
        sqs.call("purge_queue", QueueUrl=url)
        return time.time() > until

    siege.wait_for(is_over)
    siege.say(f"{gone} messages purged")
    assert gone > 20, f"too few messages were in the queue to show anything: {gone}"


def _resend(siege: Siege) -> None:
    siege.quarterjack("queues", "list")
    missing = siege.quarterjack("resend", "--all-tenants", "--dry-run")
    assert _number(missing) > 0, missing
    sent = siege.quarterjack("resend", "--all-tenants", "--rate", "200")
    assert _number(sent) > 0, sent


def _number(said: str) -> int:
    found = re.search(r"\d+", said)
    assert found, said
    return int(found[0])


PURGED = Drill(
    name="queue purged",
    done=f"For {_PURGING:.0f} s all messages of the work queue are removed, waiting, delayed and at workers alike.",
    runbook="purged-queue",
    act=_purge,
    procedure=_resend,
)
