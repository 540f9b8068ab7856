"""Writes and SQS calls a fire, counted at the API: minutely schedules on the local cloud, a ticker and a worker in this process.

python -m bench writes [--schedules 1000] [--minutes 3]

The ticker's share is taken over the fires it sent, the worker's over the runs it ended: both of the same kind of fire, so their
sum is the price of one. Creating the schedules is not counted.
"""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Sequence

from quarterjack import Registry, Scheduler
from quarterjack.daemon.roles import run_ticker
from quarterjack.daemon.worker_process import WorkerProcess
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.installation import provision
from quarterjack.services import connect
from quarterjack.settings import Settings
from quarterjack.ticker.tick import TickReport

from bench.meter import SQS_CALLS, Meter
from bench.report import Table, write


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench writes")
    parser.add_argument("--schedules", type=int, default=1_000)
    parser.add_argument("--minutes", type=float, default=3)
    given = parser.parse_args(arguments)
    with LocalCloud() as cloud:
        os.environ.update(cloud.environment)
        rows = [measure(cloud, given.schedules, given.minutes)]
    write("writes", rows)
    Table("writes", rows).show()


def measure(cloud: LocalCloud, schedules: int, minutes: float) -> dict[str, object]:
    """Run so many minutely schedules for so many minutes; figures a fire."""
    settings = Settings(prefix="writes", endpoint=cloud.endpoint, region=cloud.environment["AWS_DEFAULT_REGION"])
    provision(settings)
    registry, ended = Registry(), threading.Semaphore(0)

    @registry.job("bench.count")
    def count(ctx: object, payload: object) -> None:  # noqa: ARG001 (a no-op job)
        ended.release()

    scheduler = Scheduler("bench", settings=settings, jobs=registry)
    for number in range(schedules):
        scheduler.create_schedule(f"minutely-{number:05d}", "bench.count", "* * * * *", payload={"x": "x" * 92})
    ticking, working = connect(settings), connect(settings)
    ticker, worker = Meter(ticking), Meter(working)
    stop = threading.Event()
    done = threading.Timer(minutes * 60, stop.set)
    reports: list[TickReport] = []
    process = WorkerProcess(working, registry, concurrency=20)
    threads = [
        threading.Thread(target=process.run, kwargs={"stop": stop, "grace": 10}),
        threading.Thread(target=run_ticker, args=(ticking,), kwargs={"stop": stop, "report": reports.append}),
    ]
    for thread in (*threads, done):
        thread.start()
    for thread in threads:
        thread.join()
    runs, claimed = 0, sum(report.handled.fires.claimed for report in reports)
    while ended.acquire(blocking=False):
        runs += 1
    writes = ticker.writes / claimed, worker.writes / runs
    calls = ticker.of(*SQS_CALLS) / claimed, worker.of(*SQS_CALLS) / runs
    return {
        "case": "minutely cron, 100-byte payload",
        "schedules": schedules,
        "claimed": claimed,
        "runs": runs,
        "writes_per_fire": round(sum(writes), 3),
        "of_ticker": round(writes[0], 3),
        "of_worker": round(writes[1], 3),
        "sqs_calls_per_fire": round(sum(calls), 3),
        "sqs_of_ticker": round(calls[0], 3),
        "sqs_of_worker": round(calls[1], 3),
    }
