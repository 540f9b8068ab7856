"""200 schedules every 10 s, two tickers and two worker processes at once, for a minute: missing, double, lateness, CPU.

    python -m bench local [--schedules 200] [--seconds 60] [--start prompt]

Exits with 1 if a fire was missing or started twice: verified as by ``quarterjack local``.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from quarterjack import Context, Scheduler, job
from quarterjack.local.installation import LocalInstallation, installation
from quarterjack.local.session.status import summary
from quarterjack.local.session.verifier import StartLog, VerifierReport, WatchedSchedule, verify
from quarterjack.sdk.views import Run
from quarterjack.services import system_clock

from bench.meter import cpu
from bench.report import Table, write

AHEAD = 80  # seconds until the first fires: the tickers tick meanwhile
AGO = 180_000  # ms: the schedules are created as if so long ago, else the SDK itself would claim and send their first fires
SETTLE = 20.0  # seconds for what was due to end
LOOK = 0.25


@job("bench.nothing")
def nothing(ctx: Context, payload: Any) -> None:
    """What is measured is the scheduler."""


def main(arguments: Sequence[str] = ()) -> None:
    asked = parse(arguments)
    with installation(jobs=[nothing.__module__], tickers=2, workers=2) as running:
        running.wait_until_ready(threading.Event())
        verdict, used = measure(running, asked)
    print(summary(verdict, asked.seconds))
    rows = [
        {"process": name, "CPU s": round(seconds, 2), "ms a fire": round(seconds / verdict.expected * 1000, 2)}
        for name, seconds in used.items()
    ]
    Table(f"{verdict.expected} fires in {asked.seconds:.0f} s", rows).show()
    late = {start: asdict(figures) for start, figures in verdict.lateness.items()}
    counts = {"expected": verdict.expected, "missing": len(verdict.missing), "double": len(verdict.double)}
    write("local", [{**vars(asked), **counts, "states": dict(verdict.states), "lateness": late, "cpu": used}])
    if not verdict.clean:
        raise SystemExit(1)


def measure(running: LocalInstallation, asked: argparse.Namespace) -> tuple[VerifierReport, dict[str, float]]:
    earlier = Scheduler(settings=running.settings, clock=lambda: system_clock() - AGO)
    names = [f"bench-{number:04}" for number in range(asked.schedules)]
    first = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=AHEAD)
    every_10 = f"rate(10 seconds, from={first:%Y-%m-%dT%H:%M:%SZ})"
    for name in names:
        earlier.create_schedule(name, "bench.nothing", every_10, start=asked.start)
    since = first - timedelta(seconds=1)
    print(f"{len(names)} schedules created; the first fires are due at {first:%H:%M:%S} UTC", flush=True)
    watched = [
        WatchedSchedule(
            tenant="default", name=name, expression=every_10, timezone="UTC", start=asked.start, since=since
        )
        for name in names
    ]
    before = {name: cpu(running.processes[name].pid) for name in running.processes.names}
    upto = since + timedelta(seconds=asked.seconds)
    starts = follow(running, watched, upto)
    used = {name: cpu(running.processes[name].pid) - before[name] for name in running.processes.names}
    scheduler = Scheduler(settings=running.settings)
    runs = {name: ledger(scheduler, name, since) for name in names}
    return verify(watched, runs, starts, upto), used


def follow(running: LocalInstallation, watched: list[WatchedSchedule], upto: datetime) -> StartLog:
    starts, awaited = StartLog(), {run for schedule in watched for run in schedule.expected(upto)}
    last = upto + timedelta(seconds=SETTLE)
    while (datetime.now(UTC) < upto or not awaited <= starts.over) and datetime.now(UTC) < last:
        threading.Event().wait(LOOK)
        for process, event in running.follower.new():
            starts.note(process, event)
        assert not running.processes.replace_ended(), "a process ended by itself"
    return starts


def ledger(scheduler: Scheduler, name: str, since: datetime) -> list[Run]:
    return list(scheduler.list_runs(name, after=since, limit=500).items)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--start", choices=("prompt", "exact"), default="prompt")
    return parser.parse_args(arguments)
