"""How late high runs start while low ones wait, and what low ones keep beside a flood of high ones: over the embedded cloud.

python -m bench priorities [arrivals flood share] [--low 2000] [--high 600] [--few 40] [--arrivals 20] [--workers 2] [--concurrency 10]

All runs last a second, in a queue with lanes. ``arrivals``: while ``--low`` low runs wait, a high one is submitted every two seconds.
``flood``: ``--low`` low and ``--high`` high runs wait at once; figures are of the time in which runs of both wait. ``share``: the same with
``--few`` low runs, which have all started before the high ones are over; low runs keep a tenth of the slots, so the last of n should wait
n seconds divided by these slots at the most, which is ``low's bound s``. Lateness is from the submission to the start. Exits with 1 if a
high run did not start.
"""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from quarterjack import Scheduler
from quarterjack.domain.policies import Priority
from quarterjack.domain.queue import LOW_SHARE
from quarterjack.local.cloud import LocalCloud

from bench.observed import jobs, witness
from bench.observed.crew import Ours, ours, wait_for
from bench.observed.figures import percentile
from bench.progress import say
from bench.report import Table, write

CASES = ("arrivals", "flood", "share")
PERIOD = 60.0  # seconds between ticks
LOW, HIGH = Priority.LOW, Priority.HIGH  # what the witness knows runs by
_EVERY = 2.0  # seconds between two high runs that arrive


def main(arguments: Sequence[str] = ()) -> None:
    asked = parse(arguments)
    rows = [measure(case, asked) for case in asked.cases or CASES]
    write("priorities", rows)
    Table("priorities", rows).show()
    if any(row["high missing"] for row in rows):
        raise SystemExit(1)


def measure(case: str, asked: argparse.Namespace) -> dict[str, Any]:
    """One case over a cloud of its own."""
    with (
        LocalCloud() as cloud,
        ours(cloud, workers=asked.workers, concurrency=asked.concurrency, period=PERIOD, priorities=True) as running,
    ):
        scheduler = Scheduler("a", settings=running.settings)
        low = asked.few if case == "share" else asked.low
        expected = asked.arrivals if case == "arrivals" else asked.high
        if case == "share":  # both wait from the beginning
            submit(scheduler, expected, HIGH)
        submit(scheduler, low, LOW)
        if case == "arrivals":
            for _ in range(expected):
                threading.Event().wait(_EVERY)
                scheduler.submit(jobs.LASTS, str(HIGH), priority=HIGH)
        elif case == "flood":
            submit(scheduler, expected, HIGH)
        say(f"{case}: {witness.count(running.folder):,} of {low + expected:,} runs have begun")
        wait_until_all_high(running, expected, asked)
        began = list(witness.read(running.folder))
    bound = round(low / (asked.workers * asked.concurrency * LOW_SHARE / 100), 1) if case == "share" else None
    return {"case": case, **figures(began, expected), "low's bound s": bound, "load": round(os.getloadavg()[0], 1)}


def submit(scheduler: Scheduler, runs: int, priority: Priority) -> None:
    """Runs of one priority, by eight threads."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: scheduler.submit(jobs.LASTS, str(priority), priority=priority), range(runs)))


def wait_until_all_high(running: Ours, expected: int, asked: argparse.Namespace) -> None:
    """Wait until no high run is left, so long as that may take."""
    seconds = expected / asked.workers / asked.concurrency * 2 + 60
    deadline = threading.Event()
    threading.Timer(seconds, deadline.set).start()
    while sum(one.key == HIGH for one in witness.read(running.folder)) < expected and not deadline.is_set():
        wait_for(running, witness.count(running.folder) + 1, 1.0)


def figures(began: Sequence[witness.Began], expected: int) -> dict[str, Any]:
    late = sorted(one.at - one.due for one in began if one.key == HIGH)
    span = [one.at for one in began if one.key == HIGH]
    both = [one for one in began if span and min(span) <= one.at <= max(span)]
    low = sum(one.key == LOW for one in both)
    waited = [one.at - one.due for one in began if one.key == LOW]
    return {
        "high p50 s": round(percentile(late, 0.5) / 1e3, 2),
        "high p99 s": round(percentile(late, 0.99) / 1e3, 2),
        "high longest s": round(max(late, default=0) / 1e3, 2),
        "low's share of the starts": round(low / max(len(both), 1), 3),
        "low a second": round(low / max((max(span) - min(span)) / 1e3, 0.001), 2) if span else 0.0,
        "low longest s": round(max(waited, default=0) / 1e3, 2),
        "high missing": expected - len(late),
    }


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench priorities", description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES])
    parser.add_argument("--low", type=int, default=2_000)
    parser.add_argument("--high", type=int, default=600)
    parser.add_argument("--few", type=int, default=40)
    parser.add_argument("--arrivals", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--concurrency", type=int, default=10)
    return parser.parse_args(arguments)
