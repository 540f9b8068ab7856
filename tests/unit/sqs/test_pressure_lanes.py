"""Backpressure by lane: what waits in one holds back nothing of the others; what is low and held leaves the agenda when it has aged."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import pytest
from quarterjack.domain.options import CatchUpWord
from quarterjack.domain.policies import Priority
from quarterjack.domain.times import DAY, MINUTE
from quarterjack.fires.backpressure import read_hold_log
from quarterjack.owner.ticker_health import TickerState
from quarterjack.owner.workers import survey_queues
from quarterjack.state.backpressure import Limits
from quarterjack.testing import Memory
from quarterjack.why.answer import Cause

from tests.support.scenes.world import Faults, World, fails

HIGH, NORMAL, LOW = Priority
DEPTH = 10


@dataclass
class Laned(World):
    """The default queue has lanes, and is held at ten messages. Nobody works."""

    low_age: int = DAY
    limits: Limits = field(default_factory=lambda: Limits(depth=DEPTH, age=DAY))
    catch_up: CatchUpWord = "latest"
    sent_late: int = 0  # messages, as the ticks tell
    behind: int = 0  # ms, the most that a tick tells

    def __post_init__(self) -> None:
        super().__post_init__()
        self.memory = Memory(self.clock, shards=1, prioritised=[None], limits=self.limits, low_age=self.low_age)
        self.services = self.memory.connect()
        self.scheduler = self.owner()
        for priority in Priority:
            self.scheduler.create_schedule(
                str(priority), "note", "* * * * *", priority=priority, catch_up=self.catch_up
            )
        self.wait(60)

    def crowd(self, priority: Priority) -> None:
        for _ in range(DEPTH):
            self.scheduler.submit("note", priority=priority)

    def go_on(self, minutes: int, *, serving: Collection[Priority]) -> list[list[str]]:
        """What each tick held. The messages of some lanes are received and deleted."""
        held = []
        for _ in range(minutes):
            report = self.tick()
            held.append(list(report.held))
            self.sent_late += report.handled.messages.sent_late
            self.behind = max(self.behind, report.behind)
            self.serve(serving)
            self.wait(60)
        return held

    def serve(self, lanes: Collection[Priority]) -> None:
        for stripe, queue in self.memory.stripes.items():
            while stripe.priority in lanes and (more := queue.take(10)):
                for message in more:
                    queue.delete(message.receipt)

    def claimed(self) -> dict[Priority, int]:
        return {priority: len(self.fires(f"acme/{priority}")) for priority in Priority}

    def sent_by(self, lane: Priority) -> int:
        """Messages that are in a lane."""
        return sum(len(queue) for stripe, queue in self.memory.stripes.items() if stripe.priority is lane)


@pytest.mark.parametrize(("crowded", "part"), [(LOW, "default_low"), (NORMAL, None), (HIGH, "default_high")])
def test_a_full_lane_holds_its_own_runs_alone(crowded: Priority, part: str | None) -> None:
    world = Laned()
    world.go_on(2, serving=list(Priority))
    world.crowd(crowded)
    others = set(Priority) - {crowded}
    assert world.go_on(30, serving=others)[-1] == [part or "default"]
    claimed = world.claimed()
    assert claimed[crowded] < 20
    assert min(claimed[priority] for priority in others) >= 30
    log = read_hold_log(world.services)
    assert log.of(part).now is not None
    assert set(log.queues) == {part}
    (queue,) = survey_queues(world.services, world.clock())
    assert queue.holds is not None
    assert queue.holds.now is not None, "and that is shown"


@pytest.mark.parametrize("crowded", list(Priority))
def test_a_queue_without_lanes_is_held_as_a_whole(crowded: Priority) -> None:
    world = Laned()
    world.memory = Memory(world.clock, shards=1, limits=Limits(depth=DEPTH))
    world.services = world.memory.connect()
    world.scheduler = world.owner()
    for priority in Priority:
        world.scheduler.create_schedule(str(priority), "note", "* * * * *", priority=priority)
    world.go_on(2, serving=list(Priority))
    world.crowd(crowded)
    assert world.go_on(30, serving=[])[-1] == ["default"]
    assert max(world.claimed().values()) < 20


def test_no_catch_up_policy_passes_over_what_a_full_low_lane_held_back() -> None:
    world = Laned()
    world.scheduler.update_schedule("low", catch_up="none", catch_up_window=120)
    world.go_on(2, serving=list(Priority))
    world.crowd(LOW)
    world.go_on(60, serving=[HIGH, NORMAL])
    held = len(world.fires("acme/low"))
    world.serve([LOW])
    world.go_on(3, serving=list(Priority))
    fires = [run for run in world.memory.runs("acme/low") if run.skipped_until is None]
    assert len(fires) >= held + 45
    assert not [run for run in world.memory.runs("acme/low") if run.skipped_until is not None]


def test_how_long_low_runs_wait_holds_their_lane_although_they_are_few() -> None:
    world = Laned(limits=Limits(depth=10**5, age=5 * MINUTE))
    held = world.go_on(30, serving=[])
    assert held[-1] == ["default_low"], "of the other lanes a thousand messages would have to wait"
    assert read_hold_log(world.services).of("default_low").why == "age"
    world.serve(list(Priority))
    world.work()
    assert world.go_on(1, serving=[]) == [[]]


@pytest.mark.parametrize("laned", [True, False])
def test_why_names_the_lane_that_holds_a_fire(laned: bool) -> None:
    world = Laned()
    world.memory = Memory(world.clock, prioritised=[None] if laned else [], limits=Limits(depth=DEPTH))
    world.services = world.memory.connect()
    world.scheduler = world.owner()
    for priority in (HIGH, LOW):
        world.scheduler.create_schedule(str(priority), "note", "0 * * * *", priority=priority)
    world.go_on(2, serving=list(Priority))
    world.crowd(LOW)
    world.go_on(65, serving=[HIGH])
    fire = world.now().replace(minute=0, second=0)
    causes = {priority: world.scheduler.why(str(priority), fire).causes for priority in (HIGH, LOW)}
    assert Cause.HELD_QUEUE in causes[LOW]
    assert (Cause.HELD_QUEUE in causes[HIGH]) is not laned


# What has aged.

AGE = 30 * MINUTE


@pytest.mark.parametrize("catch_up", ["all", "none"])
def test_what_has_aged_in_the_agenda_is_sent_the_normal_way_while_the_low_lane_is_held(catch_up: CatchUpWord) -> None:
    world = Laned(low_age=AGE, catch_up=catch_up)
    world.go_on(2, serving=list(Priority))
    world.scheduler.submit("note", "one-off", priority="low", delay=1_200)
    world.crowd(LOW)
    waiting = world.sent_by(LOW)
    assert world.go_on(25, serving=[HIGH, NORMAL])[-1] == ["default_low"]
    young, lies = world.claimed()[LOW], world.sent_by(LOW) - waiting
    world.go_on(65, serving=[HIGH, NORMAL])
    fires = [run for run in world.memory.runs("acme/low") if run.skipped_until is None]
    age = [world.clock() - run.due for run in fires[young:]]
    assert len(age) >= 40, "a minute after another, as each has waited for half an hour"
    assert AGE <= min(age) <= AGE + 2 * MINUTE, "and nothing that is younger"
    assert [run.due for run in fires] == [fires[0].due + n * MINUTE for n in range(len(fires))], "none is passed over"
    assert world.sent_by(LOW) == waiting + lies, "none by the low lane"
    assert not [entry for entry in world.memory.entries() if entry.id.startswith("acme/~")], "nor is the one-off held"
    assert (world.sent_late, world.behind < 2 * MINUTE) == (0, True), "late on purpose: the ticker is not behind"
    world.tick()
    assert world.scheduler.ticker().state is TickerState.ON_TIME
    world.serve([LOW])
    world.go_on(3, serving=list(Priority))
    assert world.claimed()[LOW] >= 90, "and then all the rest"


def test_what_has_aged_is_held_with_the_normal_lane() -> None:
    world = Laned(low_age=AGE, catch_up="none")
    world.go_on(2, serving=list(Priority))
    world.crowd(LOW)
    world.crowd(NORMAL)
    assert world.go_on(90, serving=[HIGH])[-1] == ["default", "default_low"]
    assert world.claimed()[LOW] < 20
    world.serve([LOW])
    assert world.go_on(30, serving=[HIGH, LOW])[-1] == ["default"]
    assert world.claimed()[LOW] < 20, "the first of it would take the normal lane"
    world.serve([NORMAL])
    world.go_on(3, serving=list(Priority))
    assert world.claimed()[LOW] >= 120
    assert not [run for run in world.memory.runs("acme/low") if run.skipped_until is not None], "none is passed over"


# What owners submit.


def test_a_low_run_that_is_submitted_while_its_lane_is_held_waits_in_the_agenda() -> None:
    world, calls = Laned(), Faults()
    world.go_on(2, serving=list(Priority))
    world.crowd(LOW)
    world.go_on(15, serving=[HIGH, NORMAL])
    before, owner = {lane: world.sent_by(lane) for lane in Priority}, world.owner(calls)
    for priority in [*Priority, LOW, LOW]:
        owner.submit("note", priority=priority)
    assert {lane: world.sent_by(lane) - before[lane] for lane in Priority} == {HIGH: 1, NORMAL: 1, LOW: 0}
    assert len([entry for entry in world.memory.entries() if entry.id.startswith("acme/~")]) == 3
    assert [detail.verb for _, detail in calls.calls].count("record") == 1, "for all of them"
    world.serve([LOW])
    world.go_on(1, serving=[])
    assert world.sent_by(LOW) >= 3
    assert not [entry for entry in world.memory.entries() if entry.id.startswith("acme/~")]
    world.wait(60)
    owner.submit("note", priority="low")
    assert not [entry for entry in world.memory.entries() if entry.id.startswith("acme/~")], "it is not held any more"


def test_who_submits_nothing_low_reads_nothing_of_it_and_what_cannot_be_read_is_sent() -> None:
    world, calls = Laned(), Faults().at("record", before=fails, times=None)
    owner = world.owner(calls)
    for priority in (HIGH, NORMAL):
        owner.submit("note", priority=priority)
    assert "record" not in calls.verbs()
    owner.submit("note", priority="low")
    assert "record" in calls.verbs()
    assert not [entry for entry in world.memory.entries() if entry.id.startswith("acme/~")]
