"""Many runs behind a small cap, and workers that are killed, stalled and stopped one after the other, on a simulated clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.execution.settle import release_run

from tests.support.scenes.capped import Capped, Lasting
from tests.support.scenes.world import Faults

CAP, WORKERS = 5, 3
LASTS = 10 * SECOND  # a job
STALL = 100 * SECOND
KINDS = ("kill", "stall", "stop")


@dataclass
class Backlog:
    """Steps of a second. What a worker of an earlier step left behind is of no account: it is dead."""

    runs: int
    faults: int
    every: int  # seconds between two faults
    look: int = 1  # steps between two looks at all rows
    counted: Faults = field(default_factory=Faults)
    received: int = 0
    held: list[int] = field(default_factory=list)  # permits that were not free while somebody waited
    working: list[int] = field(default_factory=list)  # jobs of workers that were well then
    most: int = 0  # leases that were live at a time

    def __post_init__(self) -> None:
        self.world = Capped(limits={"concurrent_runs": CAP, "concurrency_strict": 1})
        self.hands = [self._hand(f"w{n}") for n in range(WORKERS)]
        self.began: dict[tuple[str, int], int] = {}
        self.stalled: dict[int, int] = {}  # by place: UTC ms at which it goes on
        self.kinds: list[str] = []

    def _hand(self, name: str) -> tuple[WorkerContext, Lasting]:
        return self.world.hand(name, self.counted)

    def play(self) -> None:
        owner, world, step, ended = self.world.owner(self.counted), self.world, 0, 0
        services = world.process(self.counted)
        for _ in range(self.runs):
            owner.submit("note")
            self.received += world.take(self.hands[0][0])
        while ended < self.runs:
            step += 1
            world.wait(1)
            if world.clock() % MINUTE == 0:
                world.tick(services)
            if step % self.every == 0 and len(self.kinds) < self.faults:
                self._strike(step)
            for worker, jobs in self._well():
                if step % 20 == 0:
                    worker.heartbeat.beat(world.clock())
                self._end(jobs)
                self.received += world.take(worker)
            if step % self.look == 0:
                self.most = max(self.most, world.live())
                ended = world.ended()["SUCCEEDED"]
            if (permits := world.permits()).has_queue:
                self.held.append(permits.used())
                self.working.append(sum(len(jobs.going) for _, jobs in self._well()))

    def _well(self) -> Iterable[tuple[WorkerContext, Lasting]]:
        now = self.world.clock()
        return [hand for place, hand in enumerate(self.hands) if self.stalled.get(place, 0) <= now]

    def _end(self, jobs: Lasting) -> None:
        now = self.world.clock()
        for each, _ in jobs.going:
            self.began.setdefault((str(each.run.ref), each.run.fence), now)
        over = [self.began[str(each.run.ref), each.run.fence] <= now - LASTS for each, _ in jobs.going]
        jobs.end(over.index(False) if False in over else len(over))

    def _strike(self, step: int) -> None:
        number = len(self.kinds)
        kind, place = KINDS[number % len(KINDS)], (number + number // len(KINDS)) % WORKERS
        self.kinds.append(kind)
        if kind == "stall":
            self.stalled[place] = self.world.clock() + STALL
            return
        if kind == "stop":
            worker = self.hands[place][0]
            for in_flight in worker.heartbeat.all():
                release_run(worker, in_flight)
        self.stalled.pop(place, None)
        self.hands[place] = self._hand(f"w{place}-{step}")

    def figures(self) -> dict[str, float]:
        sent = sum(len(detail.items) for _, detail in self.counted.calls if detail.verb == "send")
        return {
            "most": self.most,
            "sent": sent / self.runs,
            "received": self.received / self.runs,
            "held": sum(self.held) / len(self.held) / CAP,
            "working": sum(self.working) / len(self.working) / CAP,
        }


def check(backlog: Backlog) -> None:
    backlog.play()
    found = backlog.figures()
    assert len(backlog.kinds) == backlog.faults
    assert backlog.world.ended() == {"SUCCEEDED": backlog.runs}, "nobody is lost"
    assert backlog.world.waiting() == 0
    assert found["most"] == CAP
    assert found["sent"] <= 2.2, "once into the full cap, and once from its wait queue"
    assert found["received"] <= 2.2
    assert found["held"] >= 0.9


def test_a_backlog_behind_a_cap_is_worked_off_without_a_lease_too_many() -> None:
    check(Backlog(runs=200, faults=4, every=90))


@pytest.mark.proof
@pytest.mark.parametrize(("runs", "every", "look"), [(1_000, 40, 5), (5_000, 200, 20)])
def test_thousands_of_runs_behind_a_cap_while_fifty_workers_fail(runs: int, every: int, look: int) -> None:
    check(Backlog(runs=runs, faults=50, every=every, look=look))
