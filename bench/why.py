"""What an answer of ``why`` costs: requests and processor time, by verdict.

    python -m bench why [--answers 300]

A schedule fires every five minutes for a day on an installation in memory, with an outage, a pause, a freeze, failures and a change;
then it is asked about random instants. Requests are those that DynamoDB and SQS would get; the time is that of this process alone.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from random import Random

from quarterjack import Context, Registry, Retry, Scheduler
from quarterjack.testing import Detail, Harness, Hook

from bench.report import Table, write

START = datetime(2026, 5, 4, tzinfo=UTC)


class Requests(Hook):
    """Counts requests."""

    def __init__(self) -> None:
        self.count = 0

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        self.count += 1
        return ()


def a_day(dice: Random) -> Harness:
    """A day of one schedule."""
    jobs = Registry()

    @jobs.job("report", retry=Retry(max_attempts=2, base=30.0))
    def report(ctx: Context, payload: object) -> None:
        del ctx, payload
        if dice.random() < 0.05:
            raise ValueError("boom")

    harness = Harness(jobs, at=START, tenant="acme")
    scheduler = harness.scheduler
    scheduler.create_schedule("s", "report", "*/5 * * * *", catch_up_window=600)
    harness.advance(hours=6)
    harness.clock.advance(timedelta(hours=1))
    harness.advance(hours=3)
    scheduler.pause_schedule("s")
    harness.advance(hours=1)
    scheduler.resume_schedule("s")
    harness.advance(hours=1)
    scheduler.freeze(harness.clock.now() + timedelta(minutes=20))
    harness.advance(hours=6)
    scheduler.update_schedule("s", expression="*/15 * * * *")
    harness.advance(hours=5)
    return harness


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="bench why", description=__doc__)
    parser.add_argument("--answers", type=int, default=300)
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    dice, costs = Random(1), defaultdict[str, list[tuple[int, float]]](list)
    harness = a_day(dice)
    for _ in range(given.answers):
        at, hook = START + timedelta(minutes=5 * dice.randint(-12, 300)), Requests()
        scheduler = Scheduler("acme", services=harness.memory.connect(hook), clock=harness.clock)
        began = time.process_time()
        answer = scheduler.why("s", at)
        costs[answer.verdict].append((hook.count, (time.process_time() - began) * 1_000))
    rows = [
        {
            "verdict": verdict,
            "answers": len(found),
            "requests": round(statistics.mean(count for count, _ in found), 1),
            "most": max(count for count, _ in found),
            "ms": round(statistics.median(ms for _, ms in found), 2),
        }
        for verdict, found in sorted(costs.items())
    ]
    Table("answers of why", rows).show()
    write("why", rows)


if __name__ == "__main__":
    main()
