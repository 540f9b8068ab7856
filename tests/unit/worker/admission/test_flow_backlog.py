"""Many keys of a flow with more runs each than may go, and workers that are killed, stalled and stopped, on a simulated clock."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from quarterjack import Flow, Submission
from quarterjack.domain.run import RunState
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.execution.settle import release_run

from tests.support.scenes.capped import Capped, Lasting
from tests.support.scenes.world import Faults

MOST = 2  # runs of a key at a time
STALL = 100 * SECOND
KINDS = ("kill", "stall", "stop")
EACH = 5  # runs of a key
FLOW = Flow(key="customer", at_a_time=MOST, strict=True)


@dataclass
class Backlog:
    """Steps of ten seconds. What a worker of an earlier step left behind is of no account: it is dead."""

    keys: int
    faults: int
    every: int  # steps between two faults
    most: int  # messages that a worker takes in a step
    look: int = 1  # steps between two looks at all rows
    counted: Faults = field(default_factory=Faults)
    received: int = 0
    struck: int = 0  # messages that failing workers had: they come once more
    too_many: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = Capped(limits={})
        self.hands = [self._hand(f"w{n}") for n in range(3)]
        self.stalled: dict[int, int] = {}  # by place: UTC ms at which it goes on
        self.order: dict[str, list[int]] = defaultdict(list)  # by key: numbers of the runs whose first attempt began
        self.kinds: list[str] = []

    def _hand(self, name: str) -> tuple[WorkerContext, Lasting]:
        return self.world.hand(name, self.counted)

    def submit(self) -> None:
        owner = self.world.owner(self.counted)
        for number in range(EACH):
            items = [Submission("note", {"customer": f"c{key}", "n": number}, flow=FLOW) for key in range(self.keys)]
            for start in range(0, len(items), 1_000):
                owner.submit_all(items[start : start + 1_000])
            self.world.wait(1)

    def play(self) -> None:
        world, step, ended = self.world, 0, 0
        self.submit()
        services = world.process(self.counted)
        while ended < self.keys * EACH:
            step += 1
            world.wait(10)
            if world.clock() % MINUTE < 10 * SECOND:
                world.tick(services)
            if step % self.every == 0 and len(self.kinds) < self.faults:
                self._strike(step)
            for worker, jobs in self._well():
                if step % 2 == 0:
                    worker.heartbeat.beat(world.clock())
                jobs.end(len(jobs.going))
                for _ in range(self.most // 10):
                    self.received += world.take(worker)
                self._note(jobs)
            if step % self.look == 0:
                self._look()
                ended = world.ended()["SUCCEEDED"]

    def _note(self, jobs: Lasting) -> None:
        for each, _ in jobs.going:
            if each.run.attempt == 1:
                payload = str(each.payload)
                key, number = (
                    payload.split('"customer":"')[1].split('"', maxsplit=1)[0],
                    int(payload.split('"n":')[1].strip("}")),
                )
                if number not in self.order[key]:
                    self.order[key].append(number)

    def _look(self) -> None:
        now, live = self.world.clock(), Counter[str]()
        for run in self.world.memory.runs(None):
            if run.state is RunState.RUNNING and (run.lease_until or 0) >= now:
                live[str(run.payload).split('"customer":"')[1].split('"')[0]] += 1
        self.too_many += [f"{key}: {number}" for key, number in live.items() if number > MOST]

    def _well(self) -> Iterable[tuple[WorkerContext, Lasting]]:
        now = self.world.clock()
        return [hand for place, hand in enumerate(self.hands) if self.stalled.get(place, 0) <= now]

    def _strike(self, step: int) -> None:
        number = len(self.kinds)
        kind, place = KINDS[number % len(KINDS)], (number + number // len(KINDS)) % len(self.hands)
        self.kinds.append(kind)
        self.struck += len(self.hands[place][0].heartbeat.all())
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
        """A run."""
        runs, verbs = self.keys * EACH, self.counted.calls
        return {
            "sent": sum(len(detail.items) for _, detail in verbs if detail.verb == "send") / runs,
            "received": self.received / runs,
            "received again": self.struck / runs,
            "permits written": sum(detail.verb == "write_record" for _, detail in verbs) / runs,
        }


def check(backlog: Backlog) -> dict[str, float]:
    backlog.play()
    assert len(backlog.kinds) == backlog.faults
    assert backlog.too_many == []
    assert backlog.world.ended() == {"SUCCEEDED": backlog.keys * EACH}, "nobody is lost"
    assert backlog.world.waiting() == 0
    passed = {key: order for key, order in backlog.order.items() if any(b < a - 1 for a, b in pairwise(order))}
    assert passed == {}, "who was submitted first starts first; two may go together"
    found = backlog.figures()
    assert found["sent"] <= 1.2, found
    assert found["received"] <= 1.2 + found["received again"], found
    return found


def test_runs_of_many_keys_come_in_turn_while_workers_fail() -> None:
    check(Backlog(keys=40, faults=6, every=2, most=30))


@pytest.mark.proof
def test_fifty_thousand_runs_of_ten_thousand_keys_while_fifty_workers_fail() -> None:
    assert check(Backlog(keys=10_000, faults=50, every=1, most=200, look=5))["received"] <= 1.2
