"""What the records of workers cost: writes of a worker process while it runs 1,000 runs, bytes and CPU of a write.

python -m bench records [--runs 1000] [--seconds 45]

A whole worker process over an installation in memory runs the jobs, evenly over the time. Beside it, what one write costs with HTTP
stubbed below the client: of a record with no run, ten, and as many as fit.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from quarterjack import Registry, RunState, Scheduler
from quarterjack.clock import system_clock
from quarterjack.daemon.worker_process import WorkerProcess
from quarterjack.daemon.worker_record import RecordKeeper, process_identity
from quarterjack.domain.names import fire_ref
from quarterjack.domain.run import RunRow
from quarterjack.domain.times import SECOND
from quarterjack.state.worker_record import PERIOD, record_body
from quarterjack.testing import Detail, Hook, Memory
from quarterjack.worker.delivery.visibility import Heartbeat, InFlightMessage, JobProgress, Lease

from bench.report import Table, write
from bench.stub import StubbedCloud
from bench.tick import DUE, stubbed

_WRITES = 200  # of which the CPU is measured
_NAME = "worker@ip-10-0-0-7.eu-west-1.compute.internal:12345:abcdef"


class Count(Hook):
    """Requests by verb."""

    def __init__(self) -> None:
        self.verbs = Counter[str]()
        self._lock = threading.Lock()

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        del operation
        with self._lock:
            self.verbs[detail.verb] += 1
        return ()


def work(runs: int, seconds: float) -> dict[str, Any]:
    """One worker process that runs so many runs in so many seconds; what it wrote."""
    wait, count = threading.Event().wait, Count()
    memory = Memory(system_clock, idle=lambda left: wait(min(left, 0.02)))
    jobs = Registry()
    jobs.job("nothing")(lambda ctx, payload: None)
    scheduler = Scheduler("bench", jobs=jobs, services=memory.connect())
    process, stop = WorkerProcess(memory.connect(count), jobs), threading.Event()
    worker = threading.Thread(target=process.run, kwargs={"stop": stop, "grace": 10})
    began = system_clock()
    worker.start()
    for number in range(runs):
        scheduler.submit("nothing", number)
        wait(max((began + (number + 1) * seconds * SECOND / runs - system_clock()) / SECOND, 0))
    while any(run.state is not RunState.SUCCEEDED for run in memory.runs()):
        wait(0.05)
    stop.set()
    worker.join()
    lived, writes = system_clock() - began, count.verbs["write_record"]
    allowed = 1 + lived // PERIOD + 1
    assert writes <= allowed, f"{writes} records written, {allowed} allowed"
    return {
        "runs": runs,
        "seconds": round(lived / SECOND, 1),
        "records_written": writes,
        "allowed": allowed,
        "reads_of_records": count.verbs["record"],
    }


def cost(at_hand: int, jobs: int) -> dict[str, Any]:
    """Bytes, write units and CPU of one write."""
    cloud, registry = StubbedCloud(), Registry()
    for number in range(jobs):
        registry.job(f"reports.of.region.{number:03d}")(lambda ctx, payload: None)
    services = stubbed(cloud)
    heartbeat = Heartbeat(services)
    heartbeat.take([_in_flight(number) for number in range(at_hand)])
    identity = process_identity(_NAME, registry, app_version=str, queue="default", concurrency=10, now=DUE)
    keeper = RecordKeeper(services, "process", lambda now: identity, lambda: DUE)  # type: ignore[arg-type]
    keeper._heartbeat = heartbeat
    keeper._write()
    spent = time.process_time()
    before = cloud.cpu
    for _ in range(_WRITES):
        keeper._write()
    spent = time.process_time() - spent - (cloud.cpu - before)
    size = (
        len(json.dumps(record_body(keeper._row(stopped=False)), separators=(",", ":"))) + 100
    )  # with its key and expiry
    return {
        "runs_at_hand": at_hand,
        "jobs": jobs,
        "bytes": size,
        "write_units": -(-size // 1_024),
        "cpu_us": round(spent / _WRITES * 1e6),
        "usd_a_month": round(-(-size // 1_024) * 86_400 * 30 / (PERIOD / SECOND) * 0.625e-6, 3),
    }


def _in_flight(number: int) -> InFlightMessage:
    ref = fire_ref(f"tenant/schedule-{number:05d}", DUE)
    run = RunRow(
        ref=ref,
        state=RunState.RUNNING,
        revision=1,
        job="reports.of.region.001",
        due=DUE,
        not_before=DUE,
        fence=1,
        leased_at=DUE,
    )
    return InFlightMessage(f"r{number}", ref, lease=Lease(run=run), progress=JobProgress(fraction=0.5, stage="reading"))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench records")
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=45)
    given = parser.parse_args(arguments)
    costs = [cost(at_hand, jobs) for at_hand, jobs in ((0, 20), (10, 20), (10, 500), (1_000, 500))]
    Table("a write of a record", costs).show()
    worked = work(given.runs, given.seconds)
    Table("a worker process", [worked]).show()
    print(f"kept in {write('records', [*costs, worked])}")
