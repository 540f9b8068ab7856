"""A worker over services in memory whose isolated jobs run in real processes."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from quarterjack import Run, Scheduler
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.times import SECOND
from quarterjack.isolation import PreloadedParent, perform_isolated
from quarterjack.jobs import Registry
from quarterjack.services import system_clock
from quarterjack.state.lease import lease
from quarterjack.testing import Hook, Memory
from quarterjack.testing.process import Hand, make_worker, work_off
from quarterjack.worker.delivery.receive import receive
from quarterjack.worker.delivery.visibility import HIDDEN
from quarterjack.worker.execution.executor import ThreadedExecutor
from quarterjack.worker.stages import Outcome

from tests.support.scenes.isolated_work import registry

PARENT = PreloadedParent(["tests.support.scenes.isolated_work"])  # shared by tests: its start takes longer than they do
atexit.register(PARENT.close)


@dataclass
class Stage:
    """One installation and one worker, on a clock that runs by itself and can be put forward."""

    jobs: Registry = registry
    hook: Hook | None = None
    ahead: int = 0  # ms
    parent: PreloadedParent = PARENT

    def __post_init__(self) -> None:
        self.memory = Memory(self.clock)
        self.services = self.memory.connect(self.hook)
        self.scheduler = Scheduler("acme", jobs=self.jobs, services=self.memory.connect(), clock=self.clock)
        made = make_worker(self.services, self.jobs, self.clock, wait=threading.Event().wait)
        isolated = partial(perform_isolated, self.parent)
        self.worker = replace(made, executor=ThreadedExecutor(), isolated=isolated)

    def clock(self) -> int:
        return system_clock() + self.ahead

    def skip(self, seconds: float) -> None:
        """Put the clock forward, and let whoever waits look at it."""
        self.ahead += int(seconds * SECOND)
        for ticket in self.worker.heartbeat.all():
            with ticket.changed:
                ticket.changed.notify_all()

    def take_over(self, run_id: str) -> None:
        """Another worker finds the lease run out and takes it."""
        moved = self.services.ledger.move(
            parse_run_id(run_id),
            lease(
                revision=0, now=self.clock() + 71 * SECOND, token="other", worker="other", max_attempts=3, steal=True
            ),
        )
        assert moved.applied

    def beat(self) -> None:
        """A heartbeat of the worker."""
        self.worker.heartbeat.beat(self.clock())

    def run(self, job: str, payload: Any = None, **options: Any) -> Run:
        """Submit, run one attempt, and look."""
        run = self.scheduler.submit(job, payload, **options)
        self.work()
        return self.scheduler.get_run(run.id)

    def work(self) -> list[Outcome]:
        return Hand(worker=self.worker).work()

    def start(self, job: str, payload: Any = None, *, mark: Path | None = None, **options: Any) -> Started:
        """Submit and run one attempt in a thread of its own; returns when the job has left its mark."""
        run = self.scheduler.submit(job, payload, **options)
        (delivery,) = self.services.work.receive(most=1, wait=0, visibility=HIDDEN)
        received = receive(self.worker, [delivery])
        started = Started(run.id, mark or Path(payload["to"]))
        started.thread = threading.Thread(
            target=lambda: started.outcomes.extend(work_off(self.worker, received)), daemon=True
        )
        started.thread.start()
        assert until(lambda: started.mark.exists() and started.mark.read_text().endswith("\n"), 20)
        return started


class Started:
    """A run that executes."""

    thread: threading.Thread

    def __init__(self, run_id: str, mark: Path) -> None:
        self.run_id, self.mark = run_id, mark
        self.outcomes: list[Outcome] = []

    @property
    def group(self) -> int:
        """Of the job's process."""
        return int(self.mark.read_text().split()[0])

    def end(self, within: float = 10) -> Outcome:
        self.thread.join(within)
        assert not self.thread.is_alive()
        return self.outcomes[0]


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether it came true within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        threading.Event().wait(0.02)
    return True


def children(pid: int) -> list[int]:
    """The processes that one has started and that are not reaped."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = place.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if int(parent) == pid:
            found.append(int(place.parent.name))
    return found


def living(group: int) -> list[str]:
    """The processes of a group that are not zombies."""
    stats = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = place.read_text()
        except OSError:
            continue
        state, _, of = text.rpartition(")")[2].split()[:3]
        if int(of) == group and state != "Z":
            stats.append(text[:60])
    return stats
