"""Ticker and worker in this very process, over services in memory: what is left of the lateness when nothing is slow but our own code."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from quarterjack import Registry, Scheduler
from quarterjack.daemon.roles import run_ticker
from quarterjack.daemon.worker_process import WorkerProcess
from quarterjack.job_packages import load
from quarterjack.local.processes import changed_environ
from quarterjack.ports.services import Clock
from quarterjack.services import system_clock
from quarterjack.testing.memory.installation import Memory

from bench.observed import jobs, witness

SHARDS = 16
_LOOK = 0.1  # seconds
_POLL = (
    0.005,
    0.5,
)  # seconds between looks of a long poll, at least and at most: until the next message becomes visible


@dataclass(frozen=True)
class Inside:
    """Threads over services in memory."""

    memory: Memory
    folder: Path

    def scheduler(self, clock: Clock) -> Scheduler:
        return Scheduler(services=self.memory.connect(), clock=clock)

    def cpu(self) -> dict[str, float]:
        return {"process": time.process_time()}

    def look(self) -> None:
        threading.Event().wait(_LOOK)

    def pids(self) -> Sequence[int]:
        return [os.getpid()]


@contextmanager
def inside(*, concurrency: int, period: float) -> Iterator[Inside]:
    """A ticker and a worker for the time of the block."""
    with tempfile.TemporaryDirectory(prefix="quarterjack-bench-") as name, changed_environ({witness.FOLDER: name}):
        memory = Memory(system_clock, shards=SHARDS, idle=_idle)
        known: Registry = load(jobs.__name__)
        worker, stop = WorkerProcess(memory.connect(), known, concurrency=concurrency), threading.Event()
        threads = [
            threading.Thread(target=run_ticker, args=(memory.connect(),), kwargs={"stop": stop, "period": period}),
            threading.Thread(target=worker.run, kwargs={"stop": stop, "grace": 5.0}),
        ]
        for thread in threads:
            thread.start()
        try:
            yield Inside(memory, Path(name))
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def _idle(seconds: float) -> None:
    least, most = _POLL
    threading.Event().wait(min(max(seconds, least), most))
