"""A backfill beside 100 live schedules that fire every 10 s: the lateness of the live fires with it and without, and its pace.

    python -m bench backfill [--fires 3000] [--concurrency 10] [--schedules 100] [--quiet 30] [--start exact]

One run on the local cloud, one ticker and two worker processes: quiet, backfill, quiet. Exits with 1 if a fire of the backfill did not
run exactly once.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from quarterjack import Context, Scheduler, job
from quarterjack.local.installation import LocalInstallation, installation
from quarterjack.sdk.backfills import Backfill
from quarterjack.sdk.views import Run
from quarterjack.services import system_clock

from bench.report import Table, write

AHEAD = 75  # seconds until the first live fires: the ticker ticks meanwhile
AGO = 180_000  # ms: the schedules are created as if so long ago, else the SDK itself would claim and send their first fires
PERIOD = 10  # seconds between two fires of a live schedule
SETTLE = 5  # seconds for the last live fires to end
LOOK = 1.0  # seconds between two looks at the backfill


@job("bench.backfilled")
def nothing(ctx: Context, payload: Any) -> None:
    """What is measured is the scheduler."""


def main(arguments: Sequence[str] = ()) -> None:
    asked = parse(arguments)
    with installation(jobs=[nothing.__module__], tickers=1, workers=2) as running:
        running.wait_until_ready(threading.Event())
        row = measure(running, asked)
    write("backfill", [vars(asked) | row])
    if row["missing"] or row["repeated"]:
        raise SystemExit(1)


def measure(running: LocalInstallation, asked: argparse.Namespace) -> dict[str, Any]:
    scheduler = Scheduler(settings=running.settings)
    first = live_schedules(running, asked)
    scheduler.create_schedule("past", "bench.backfilled", "* * * * *")
    sleep_until(first + timedelta(seconds=asked.quiet))
    began, clock = datetime.now(UTC), time.monotonic()
    started = start(scheduler, asked.fires, asked.concurrency, began)
    ended = wait_for(scheduler, started)
    took, over = time.monotonic() - clock, datetime.now(UTC)
    sleep_until(over + timedelta(seconds=asked.quiet + SETTLE))
    lateness = {"without": list[float](), "with": list[float]()}
    for run in live_runs(scheduler, asked.schedules, first, over + timedelta(seconds=asked.quiet)):
        assert run.lateness is not None, f"{run.id} is {run.state}"
        lateness["with" if began <= run.due < over else "without"].append(run.lateness.total_seconds() * 1_000)
    rows = [figures(name, values) for name, values in lateness.items()]
    Table(f"lateness of live fires in ms, beside a backfill of {ended.total} fires", rows).show()
    print(
        f"\nbackfill: {ended.done} runs in {took:.1f} s, {ended.done / took:.0f} a second, {asked.concurrency} at a time"
    )
    runs = list(backfilled(scheduler, started))
    progress = {name: value for name, value in asdict(ended).items() if isinstance(value, int)}
    missing, repeated = ended.total - len(runs), sum(run.fence != 1 for run in runs)
    return {"seconds": took, "lateness": rows, "missing": missing, "repeated": repeated} | progress


def live_schedules(running: LocalInstallation, asked: argparse.Namespace) -> datetime:
    """Create them; when they first fire."""
    earlier = Scheduler(settings=running.settings, clock=lambda: system_clock() - AGO)
    first = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=AHEAD)
    every = f"rate({PERIOD} seconds, from={first:%Y-%m-%dT%H:%M:%SZ})"
    for name in names(asked.schedules):
        earlier.create_schedule(name, "bench.backfilled", every, start=asked.start)
    print(f"{asked.schedules} schedules created; the first fires are due at {first:%H:%M:%S} UTC", flush=True)
    return first


def names(schedules: int) -> list[str]:
    return [f"live-{number:04}" for number in range(schedules)]


def start(scheduler: Scheduler, fires: int, concurrency: int, now: datetime) -> Backfill:
    end = now.replace(second=0, microsecond=0) - timedelta(hours=1)
    since = end - timedelta(minutes=fires)
    return scheduler.backfill("past", since, end, concurrency=concurrency, current=True, dry_run=False)


def wait_for(scheduler: Scheduler, started: Backfill) -> Backfill:
    while True:
        now = scheduler.get_backfill("past", str(started.id))
        if now.ended_at is not None:
            return now
        threading.Event().wait(LOOK)


def live_runs(scheduler: Scheduler, schedules: int, since: datetime, upto: datetime) -> Iterator[Run]:
    for name in names(schedules):
        yield from scheduler.list_runs(name, after=since - timedelta(seconds=1), before=upto, limit=1_000).items


def backfilled(scheduler: Scheduler, started: Backfill) -> Iterator[Run]:
    cursor = None
    while True:
        page = scheduler.backfill_runs("past", str(started.id), limit=1_000, cursor=cursor)
        yield from page.items
        cursor = page.cursor
        if cursor is None:
            return


def sleep_until(moment: datetime) -> None:
    threading.Event().wait(max((moment - datetime.now(UTC)).total_seconds(), 0))


def figures(name: str, values: list[float]) -> dict[str, Any]:
    ordered = sorted(values)

    def at(share: float) -> float:
        return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)], 1)

    return {"backfill": name, "fires": len(ordered), "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1.0)}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fires", type=int, default=3_000)
    parser.add_argument("--concurrency", type=int, default=10)
    parser.add_argument("--schedules", type=int, default=100)
    parser.add_argument("--quiet", type=float, default=30.0)
    parser.add_argument("--start", choices=("prompt", "exact"), default="exact")
    return parser.parse_args(arguments)
