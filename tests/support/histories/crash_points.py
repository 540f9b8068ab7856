"""Crash points: every API call of a scenario, with the process that makes it dying before or after it, singly and in pairs.

A scenario is a list of steps; each is a process of its own, and a crash ends that process only. Afterwards the system is left alone
(ticks, workers, undertaker, auditor) until all that is due has had time to be dealt with, and the checker decides.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from quarterjack import Context, Scheduler
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import QuarterjackError
from quarterjack.testing import Crash, Detail, Hook
from quarterjack.testing.memory.calls import READS
from quarterjack.testing.process import bury_all
from quarterjack.worker.context import WorkerContext

from tests.support.histories.checker import Observed, Start, violations
from tests.support.scenes.world import World

JUDGED = 3 * MINUTE  # after a scenario: what is due until then must be dealt with
RECOVERY = 50 * MINUTE  # of simulated time at the most: leases, retries, watches and ten-minute orphans have passed


@dataclass(frozen=True, order=True)
class Point:
    """A place in a scenario."""

    call: int  # 0, 1, 2 … over all its processes
    after: bool  # the call took effect

    def __str__(self) -> str:
        return f"{'after' if self.after else 'before'} call {self.call}"


class Plan(Hook):
    """Counts the calls of a scenario and kills the process that makes one of those chosen."""

    def __init__(self, points: Collection[Point] = ()) -> None:
        self.points = frozenset(points)
        self.calls: list[str] = []
        self.writes: dict[
            int, bool
        ] = {}  # calls that may change something: whether something else has happened since the last
        self.is_apart = True
        self.meanwhile: dict[
            str, Callable[[], object]
        ] = {}  # what somebody else does before the first call of that verb
        self.crashed: list[str] = []
        self.off = False

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        if self.off:
            return ()
        action = self.meanwhile.pop(detail.verb, None)
        if action is not None:
            action()
            self.is_apart = True
        if operation not in READS:
            self.writes[len(self.calls)], self.is_apart = self.is_apart, False
        self.calls.append(f"{operation} {detail.place}.{detail.verb}")
        self._die_at(after=False)
        return ()

    def after_call(self, operation: str, detail: Detail) -> None:
        if not self.off:
            self._die_at(after=True)

    def apart(self) -> list[Point]:
        """Points that leave behind what no other one does: after each call that may change something, and before the first of a process,

        and before the first after a job or another process did something. A process that dies until the next of these leaves the same.
        """
        return [
            Point(call, after)
            for call, is_apart in self.writes.items()
            for after in ((False, True) if is_apart else (True,))
        ]

    def _die_at(self, *, after: bool) -> None:
        point = Point(len(self.calls) - 1, after)
        if point in self.points:
            self.points -= {point}
            self.crashed.append(f"{point} ({self.calls[-1]})")
            raise Crash


class Scene:
    """One run of a scenario: a world, what is observed of it, and the plan that its processes follow."""

    def __init__(self, points: Collection[Point] = ()) -> None:
        self.world, self.seen, self.plan = World(), Observed(once={"once"}), Plan(points)
        self.world.during = self._note
        self.during: Callable[[Context], None] = lambda ctx: None
        self.at_hand: list[str] = []
        self.told: object = None  # the payload of an update that has returned
        self.told_at = 0  # UTC ms
        self.link: tuple[str, str] | None = None  # id and token of a link
        self.unfinished = 0  # items of a map that had not ended at the same time, at the most
        self.wrong: list[str] = []  # what jobs of the scenario found

    def _note(self, ctx: Context) -> None:
        began = self.world.started[-1]
        self.seen.starts.append(
            Start(run_id=began.run_id, attempt=began.attempt, at=began.at, process="worker", payload=began.payload)
        )
        self.at_hand.append(ctx.run_id)
        self.during(ctx)
        self.plan.is_apart = True

    def owner(self) -> Scheduler:
        return self.world.owner(self.plan)

    def tick(self, holder: str = "ticker") -> None:
        self.world.tick(self.world.process(self.plan), holder=holder)

    def work(self) -> None:
        self.works(lambda worker: self.world.work(worker, together=True))

    def works(self, body: Callable[[WorkerContext], object]) -> None:
        """A worker's process; another one may work in the middle of it."""
        before, self.at_hand = self.at_hand, []
        try:
            body(self.world.worker(self.plan))
        except Crash:
            self.seen.excused |= set(self.at_hand)  # what this process had started and may not have settled
            raise
        finally:
            self.at_hand = before

    def undertake(self) -> None:
        bury_all(self.world.process(self.plan), self.world.clock)

    def audit(self) -> None:
        self.world.audit(self.world.process(self.plan))

    def process(self, step: Callable[[Scene], object]) -> None:
        """One step; whether it crashes or is refused, the others go on."""
        self.plan.is_apart = True
        try:
            step(self)
        except (Crash, QuarterjackError):
            return

    def recover(self) -> list[str]:
        """Nobody crashes any more. What does not hold when everything has come to rest, or has had time enough."""
        self.plan.off = True
        start = self.world.clock()
        self.world.live((JUDGED + MINUTE) // SECOND)
        self.world.audit()
        while found := violations(self.seen, self.world.memory, start + JUDGED):
            if self.world.clock() > start + RECOVERY:
                return found
            self.world.live(2 * MINUTE // SECOND)
        self.world.audit()  # tidies what has ended since
        repaired = {what: count for what, count in vars(self.world.audit()).items() if count and what != "schedules"}
        return [f"the auditor repairs what is at rest: {repaired}"] if repaired else []


@dataclass(frozen=True, eq=False)
class Scenario:
    """A name, and the processes in their order."""

    name: str
    steps: Sequence[Callable[[Scene], object]]
    expect: Callable[[Scene], list[str]] = field(default=lambda scene: [])  # what else must hold

    def play(self, points: Collection[Point] = ()) -> Scene:
        scene = Scene(points)
        for step in self.steps:
            scene.process(step)
        return scene

    def verdict(self, points: Collection[Point]) -> list[str]:
        """Play it with crashes, let it recover; what does not hold."""
        scene = self.play(points)
        found = scene.recover() + self.expect(scene)
        return [f"{self.name}, {scene.plan.crashed}: {text}" for text in found]

    @cached_property
    def plan(self) -> Plan:
        """Of the scenario as it goes without crashes, which it does alike each time."""
        return self.play().plan

    def points(self) -> list[Point]:
        """Every crash point of the scenario as it goes without crashes."""
        return [Point(call, after) for call in range(len(self.plan.calls)) for after in (False, True)]


def singles(scenario: Scenario) -> Iterator[tuple[Point, ...]]:
    return ((point,) for point in scenario.points())


def at_writes(scenario: Scenario) -> Iterator[tuple[Point, ...]]:
    """The points of the scenario that leave behind what no other one does."""
    return ((point,) for point in scenario.plan.apart())


def pairs(scenario: Scenario, most: int, seed: int = 1) -> list[tuple[Point, Point]]:
    """Pairs of crash points, all of them or ``most`` chosen by the seed."""
    everything = list(combinations(scenario.points(), 2))
    return everything if len(everything) <= most else random.Random(seed).sample(everything, most)
