"""What the functions write into their logs: the real handlers over services in memory, as a process of their own.

    python -m bench.modelled.function_logs worker 10

Standard output is what CloudWatch takes in, but for the lines that Lambda itself writes about an invocation. Before each invocation
there is a MARK; ``bench/modelled/log_bytes.py`` counts what is between them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any
from unittest.mock import patch

from quarterjack import Registry, Scheduler
from quarterjack.clock import system_clock
from quarterjack.testing import Memory

MARK = "\x1e"
INVOCATIONS = 4
REQUEST = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"
_JOB = "reports.daily"
_AGO = 200_000  # ms: schedules are made as if so long ago, else the SDK itself would claim their first fires


class Context:
    """What Lambda tells a function."""

    memory_limit_in_mb = 512
    aws_request_id = REQUEST
    log_stream_name = "2026/11/22/[$LATEST]0123456789abcdef0123456789abcdef"

    def __init__(self, part: str) -> None:
        self.function_name = f"quarterjack-{part}"
        self.invoked_function_arn = f"arn:aws:lambda:us-east-1:123456789012:function:{self.function_name}"

    def get_remaining_time_in_millis(self) -> int:
        return 600_000


class Installation:
    """Services in memory, a job that does nothing, and work for the functions."""

    def __init__(self) -> None:
        self.jobs = Registry()
        self.jobs.job(_JOB)(lambda ctx, payload: None)
        self.services = Memory(system_clock).connect()

    def messages(self, number: int) -> dict[str, Any]:
        """An event of so many runs."""
        scheduler = Scheduler(jobs=self.jobs, services=self.services, clock=system_clock)
        for _ in range(number):
            scheduler.submit(_JOB)
        return {"Records": [_record(one) for one in self.services.work.receive(most=number, wait=0, visibility=60)]}

    def fires(self, number: int) -> dict[str, Any]:
        """The event of a clock, after which so many fires are claimed."""
        scheduler = Scheduler(jobs=self.jobs, services=self.services, clock=lambda: system_clock() - _AGO)
        at, made = datetime.now(UTC) + timedelta(minutes=1), system_clock()
        for one in range(number):
            scheduler.create_schedule(f"s-{made}-{one:03}", _JOB, f"{at:%M %H %d %m} *")
        return {}


def _record(delivery: Any) -> dict[str, Any]:
    return {
        "messageId": delivery.id,
        "receiptHandle": delivery.receipt,
        "body": delivery.body,
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": str(delivery.sent_at)},
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:quarterjack-work",
    }


def main(part: str, entries: int) -> None:
    """Call the function INVOCATIONS times, each time with so many messages or fires."""
    observe = import_module(
        "functions.observe"
    )  # not above: its metrics take their names from the environment, once a process
    observe._share_format()
    one, module = Installation(), import_module(f"functions.{part}.handler")
    event: Callable[[int], dict[str, Any]] = one.messages if part == "worker" else one.fires
    jobs = patch.object(module, "_jobs", lambda: one.jobs) if part == "worker" else patch.object(module, "__doc__", "")
    never = patch("quarterjack.ticker.tick.MEASURED", 1 << 60)  # minutes: every fifth tick logs the gauges as well
    with patch.object(module, "services", lambda: one.services), jobs, never:
        for _ in range(INVOCATIONS):
            given = event(entries)
            sys.stdout.write(MARK)
            module.handler(given, Context(part))
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
