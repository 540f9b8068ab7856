"""What a worker costs: CPU, calls, bytes and write units a run of a job that does nothing, with HTTP stubbed below botocore.

python -m bench work [--runs 5000] [--repeat 3]

A whole worker process, its threads included, over a queue that always has a full batch: receive, read revisions, lease, run, settle,
delete. ``cpu_us_per_fire`` is the minimum of the repetitions, the median stands beside it. Log lines are not written.
"""

from __future__ import annotations

import argparse
import gc
import os
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from quarterjack import Registry
from quarterjack.clock import system_clock
from quarterjack.daemon.worker_process import WorkerProcess
from quarterjack.domain.message import Message
from quarterjack.domain.names import fire_ref, one_off_ref, schedule_owner
from quarterjack.domain.run import RunRow, RunState
from quarterjack.dynamodb.items import to_item
from quarterjack.stores.rows import run_row

from bench.report import Table, write
from bench.stub import Exchange, Item, StubbedCloud
from bench.tick import NOTHING, PAYLOADS, Case, figures, payload_of, revision, row, shard_of, stubbed

_PATIENCE = 120  # seconds for all runs


@dataclass(frozen=True)
class Work:
    """Runs that wait in the queue."""

    name: str
    job: str = "bench.nothing"
    one_off: bool = False
    payload: int = 100  # bytes
    concurrency: int = 10
    deletions: int = 1  # of each message


CASES = (
    Work("no-op, batch of 10"),
    Work("no-op, batch of 10, one-off", one_off=True),
    Work("no-op, three batches at once", concurrency=30),
    Work("no-op, batch of 10, at most once", job="bench.once", deletions=2),
    *(Work(f"no-op, batch of 10, {size // 1_000} KB payload", payload=size) for size in PAYLOADS),
)


def message(case: Work, number: int, due: int) -> Message:
    ref = one_off_ref("bench", f"{number:032d}") if case.one_off else fire_ref(_owner(number), due)
    return Message(run=ref, revision=0 if case.one_off else 1, not_before=due)


def _owner(number: int) -> str:
    return schedule_owner("bench", f"schedule-{number:06d}")


def waiting(case: Work, due: int) -> Item:
    """The row of a one-off before its lease, but for its key."""
    run = RunRow(
        ref=one_off_ref("bench", "any"),
        state=RunState.QUEUED,
        revision=0,
        job=case.job,
        due=due,
        not_before=due,
        created_at=due - 60_000,
        payload=payload_of(case.payload),
    )
    return to_item(run_row(run))


def leased(case: Work, due: int) -> Item:
    """The row of a run as its lease leaves it, but for its key."""
    run = RunRow(
        ref=fire_ref(_owner(0), due),
        state=RunState.RUNNING,
        revision=0 if case.one_off else 1,
        job=case.job,
        due=due,
        not_before=due,
        created_at=due - 60_000,
        fence=1,
        attempt=1,
        max_attempts=5,
        lease_until=due + 60_000,
        lease_token="f" * 16,
        started_at=due,
        worker="worker@host:12345:abcdef",
        payload=payload_of(case.payload) if case.one_off else None,
    )
    return to_item(run_row(run))


def measure(
    case: Work,
    runs: int,
    exchanges: list[Exchange] | None = None,
    *,
    around: AbstractContextManager[object] = NOTHING,
) -> dict[str, float]:
    """One worker process from its first message to the deletion of the last, within ``around``; figures a run.

    The calls go to ``exchanges``.
    """
    cloud = cloud_of(case, runs)
    cloud.exchanges = exchanges
    with around:
        return figures(cloud, runs, run_all(case, cloud, runs))


def cloud_of(case: Work, runs: int, *, latency: float = 0.0) -> StubbedCloud:
    """One in whose queue so many runs wait, all due now: a late fire's row is read, because its claim may have been late."""
    due = system_clock()
    sample = Case(case.name, "0 * * * *", payload=case.payload)
    numbers = range(0 if case.one_off else runs)
    job = {"job": {"S": case.job}}
    revisions = {_owner(n): revision(_owner(n), shard_of(_owner(n)), sample) | job for n in numbers}
    bodies = [message(case, number, due).encode() for number in range(runs)]
    read = waiting(case, due) if case.one_off else None
    return StubbedCloud(revisions=revisions, run=leased(case, due), read=read, messages=bodies, latency=latency)


def run_all(case: Work, cloud: StubbedCloud, runs: int) -> float:
    """Work off all that waits in a cloud; the CPU seconds that it took."""
    registry, done = Registry(), Counter()
    registry.job("bench.nothing")(done.nothing)
    registry.job("bench.once", delivery="at_most_once")(done.nothing)
    process = WorkerProcess(stubbed(cloud), registry, concurrency=case.concurrency)
    gc.collect()
    gc.freeze()  # what the stub holds is no part of a worker
    stop = threading.Event()
    worker = threading.Thread(target=process.run, kwargs={"stop": stop, "grace": 10})
    started = time.process_time()
    worker.start()
    deadline = time.monotonic() + _PATIENCE
    deletions = runs * case.deletions
    while cloud.deleted < deletions and time.monotonic() < deadline:
        stop.wait(0.02)
    cpu = time.process_time() - started - cloud.cpu
    stop.set()
    worker.join()
    gc.unfreeze()
    if done.count != runs or cloud.deleted != deletions:
        raise SystemExit(f"{done.count} jobs ran and {cloud.deleted} messages went of {runs}")
    return cpu


class Counter:
    """Counts the calls of a job that does nothing."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def nothing(self, ctx: Any, payload: Any) -> None:
        with self._lock:
            self.count += 1


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench work")
    parser.add_argument("--quick", action="store_true", help="the first case only")
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args(arguments)
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    measure(CASES[0], 100)  # imports and caches are no part of a warm worker
    chosen = CASES[:1] if given.quick else CASES
    rows = [row(case.name, given.runs, [measure(case, given.runs) for _ in range(given.repeat)]) for case in chosen]
    write("work", rows)
    Table("work", rows).show()
