"""A tenant with concurrency caps, and workers whose jobs last until they are told to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

from quarterjack import Tenants
from quarterjack.concurrency.pools import Arguments
from quarterjack.domain.run import EntryKind, RunRow, RunState
from quarterjack.domain.times import SECOND
from quarterjack.fires.flow.wait_queue import read_permits
from quarterjack.state.tenants.caps import ConcurrencyCap
from quarterjack.state.tenants.permits import CapPermits
from quarterjack.testing import Hook
from quarterjack.worker.context import CrashQuarantine, WorkerContext
from quarterjack.worker.delivery.receive import partition_batch, receive
from quarterjack.worker.delivery.visibility import HIDDEN
from quarterjack.worker.pipeline import run_batch, settle
from quarterjack.worker.stages import AttemptResult, EndedRun, LeasedRun, Returned

from tests.support.scenes.world import World

ACME = ConcurrencyCap(tenant="acme", job="*", most=None)


class Unguarded(CrashQuarantine):
    """Lets suspects in together: it would hold them up for half a second of real time each."""

    def enter(self, suspect: object, crashes: int) -> bool:
        return True


@dataclass
class Lasting:
    """An executor whose jobs end when the test says so."""

    going: list[tuple[LeasedRun, WorkerContext]] = field(default_factory=list)

    def run(self, worker: WorkerContext, leased: Sequence[LeasedRun]) -> Sequence[Sequence[EndedRun]]:
        self.going += [(each, worker) for each in leased]
        return ()

    def start(self, worker: WorkerContext, body: Callable[[Unpack[Arguments]], object], *arguments: *Arguments) -> None:
        body(*arguments)

    def end(self, number: int = 1, result: AttemptResult | None = None) -> None:
        """The jobs that began first end together."""
        ending, self.going = self.going[:number], self.going[number:]
        if ending:
            settle(ending[0][1], [(each, result or Returned()) for each, _ in ending])


@dataclass
class Capped(World):
    """The tenant acme, and its limits."""

    limits: dict[str, Any] = field(default_factory=lambda: {"concurrent_runs": 3})

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tenants = Tenants(services=self.services, clock=self.clock)
        self.tenants.set("acme", limits=self.limits)

    def hand(self, name: str, hook: Hook | None = None) -> tuple[WorkerContext, Lasting]:
        """A worker, and its jobs."""
        worker = self.worker(hook, name=name)
        jobs = Lasting()
        object.__setattr__(worker, "executor", jobs)
        object.__setattr__(worker, "quarantine", Unguarded())
        return worker, jobs

    def take(self, worker: WorkerContext, most: int = 10) -> int:
        """A worker receives messages once, and begins with what it may; how many came."""
        queue = worker.services.work
        came = queue.receive(most=most, wait=0, visibility=HIDDEN)
        for batch in partition_batch(worker, receive(worker, came)):
            run_batch(worker, batch)
        return len(came)

    def take_all(self, *workers: WorkerContext) -> None:
        """They receive in turn until nothing is visible."""
        while sum(self.take(worker) for worker in workers):
            pass

    def submit(self, number: int, job: str = "note") -> list[str]:
        return [self.scheduler.submit(job, {"n": n}).id for n in range(number)]

    def live(self) -> int:  # type: ignore[override]
        """Leases that are live by the one clock there is."""
        return sum(
            run.state is RunState.RUNNING and (run.lease_until or 0) >= self.clock() for run in self.memory.runs(None)
        )

    def ended(self) -> Counter[str]:
        return Counter(run.state.value for run in self.memory.runs(None))

    def run_of(self, run_id: str) -> RunRow:
        return next(run for run in self.memory.runs(None) if str(run.ref) == run_id)

    def permits(self, cap: ConcurrencyCap = ACME) -> CapPermits:
        return read_permits(cap, self.services).current(self.clock())

    def waiting(self) -> int:
        """Entries in wait queues."""
        return sum(isinstance(entry.shard, str) for entry in self.memory.entries())

    def timers(self) -> int:
        return len(self.entries(EntryKind.QUEUE))

    def beat(self, *workers: WorkerContext, seconds: int = 20) -> None:
        self.wait(seconds)
        for worker in workers:
            worker.heartbeat.beat(self.clock())


def seconds(ms: int) -> float:
    return ms / SECOND
