"""How far the history is behind the ledger, with real processes on the embedded cloud.

python -m bench listed [--seconds 60] [--rate 10]

One-offs are submitted at a steady rate, two workers run them, a historian follows the stream, and ``list_runs`` is asked five times a
second for those that have ended. A run's delay is from its end to the first answer that has it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from quarterjack import Context, Scheduler, job
from quarterjack.local.installation import installation

from bench.report import Table, write

LOOK = 0.2  # seconds between two questions


@job("bench.history")
def nothing(ctx: Context, payload: Any) -> None:
    """What is measured is the historian."""


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="bench listed")
    parser.add_argument("--seconds", type=float, default=60.0, help="of submissions (60)")
    parser.add_argument("--rate", type=float, default=10.0, help="of submissions, a second (10)")
    rows = delay(parser.parse_args(arguments))
    write("listed", rows)
    Table("delay of the history", rows).show()


def delay(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Of a run's end until it is in an answer."""
    with installation(jobs=[nothing.__module__], workers=2) as running:
        running.wait_until_ready(threading.Event())
        owner = Scheduler(settings=running.settings)
        warm = owner.submit("bench.history")
        owner.wait_for(warm.id, timeout=60)
        since, stop = datetime.now(UTC), threading.Event()
        seen: dict[str, float] = {}
        watcher = threading.Thread(target=_watch, args=(owner, since, stop, seen))
        watcher.start()
        number, due = 0, time.monotonic()
        while number < asked.seconds * asked.rate:
            owner.submit("bench.history", idempotency_key=f"r{number}")
            number += 1
            due += 1 / asked.rate
            time.sleep(max(0.0, due - time.monotonic()))
        deadline = time.monotonic() + 60
        while len(seen) < number and time.monotonic() < deadline:
            time.sleep(LOOK)
        stop.set()
        watcher.join()
    values = sorted(seen.values())
    if not values:
        raise SystemExit("bench listed: no run was listed; see whether a historian runs")
    return [
        {
            "runs": number,
            "missing": number - len(values),
            "a second": asked.rate,
            "p50 s": round(statistics.median(values), 2),
            "p99 s": round(values[int(len(values) * 0.99) - 1], 2),
            "max s": round(values[-1], 2),
            "load": round(os.getloadavg()[0], 1),
        }
    ]


def _watch(owner: Scheduler, since: datetime, stop: threading.Event, seen: dict[str, float]) -> None:
    """Ask for the latest ends again and again; ``seen``: by run, seconds from its end to the answer."""
    while not stop.wait(LOOK):
        begin, cursor = max(since, datetime.now(UTC) - timedelta(seconds=30)), None
        while True:
            page = owner.list_runs(state="SUCCEEDED", since=begin, limit=1_000, cursor=cursor)
            now = datetime.now(UTC)
            for run in page.items:
                if run.ended_at is not None and run.ended_at >= since:
                    seen.setdefault(run.id, (now - run.ended_at).total_seconds())
            cursor = page.cursor
            if cursor is None:
                break
