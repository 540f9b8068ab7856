"""Drills of queues: the work queue is purged, the dead-letter queue is closed."""

from __future__ import annotations

import re
import time

from quarterjack.aws import Client
from quarterjack.domain.times import SECOND

from tests.support.chaos.fault_injector import Fate
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


_LEASES = 4  # for so many lease times the dead-letter queue is closed
_DOOMED = 40  # runs that fail for good


def _close_dead_letters(siege: Siege) -> None:
    """Nobody may send to the dead-letter queue or receive from it, while runs fail for good; its undertaker is gone."""
    siege.kill("undertaker")
    seconds = _LEASES * siege.plan.pace.lease
    siege.afflict("sqs", Fate.DENY, seconds, about=siege.settings.queue("dead"))
    siege.submit("chaos.doomed", _DOOMED)
    siege.go_on(seconds)


def _start_undertaker(siege: Siege) -> None:
    denied = siege.journal.faults[Fate.DENY]
    assert denied > 20, f"too few letters were refused to show anything: {denied}"
    siege.start_again("undertaker")
    siege.quarterjack("resend", "--all-tenants", "--due-before", "now", "--rate", "200")
    siege.wait_for(lambda: not siege.books.waiting(int(siege.acted_at * SECOND) + 1_000))
    siege.is_whole()
    listed = siege.quarterjack("dead", "list", "--since", "-3h", "--limit", "1000")
    dead = listed.count("chaos.doomed")
    assert dead >= _DOOMED, f"{dead} of {_DOOMED} dead runs are on the list"
    assert listed.count("ValueError") == dead, "some lost the error of their job"


UNBURIED = Drill(
    name="dead letters closed",
    done=f"For {_LEASES} lease times nobody may use the dead-letter queue, while {_DOOMED} runs fail for good; the undertaker is killed.",
    runbook="unburied",
    act=_close_dead_letters,
    procedure=_start_undertaker,
    before=4.0,
    after=4.0,
)
