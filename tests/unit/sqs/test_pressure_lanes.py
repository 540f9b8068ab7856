"""Backpressure and the ticker's order, by lane: low runs that wait hold nobody back who is more urgent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pytest
from minutehand.domain.policies import Priority
from minutehand.fires.backpressure import read_hold_log
from minutehand.owner.queues import survey_queues
from minutehand.state.backpressure import Limits
from minutehand.testing import Memory
from minutehand.testing.memory.calls import Detail, Hook

from tests.support.scenes.world import World

HIGH, NORMAL, LOW = Priority
DEPTH = 10


@dataclass
class Laned(World):
    """The default queue has lanes, and is held at ten messages. Nobody works."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.memory = Memory(self.clock, shards=1, prioritised=[None], limits=Limits(depth=DEPTH))
        self.services = self.memory.connect()
        self.scheduler = self.owner()
        for priority in Priority:
            self.scheduler.create_schedule(str(priority), "note", "* * * * *", priority=priority)
        self.wait(60)

    def crowd(self, priority: Priority) -> None:
        for _ in range(DEPTH):
            self.scheduler.submit("note", priority=priority)

    def go_on(self, minutes: int, *, serving: Collection[Priority]) -> list[list[str]]:
        """What each tick held. The messages of some lanes are received and deleted."""
        held = []
        for _ in range(minutes):
            held.append(list(self.tick().held))
            self.serve(serving)
            self.wait(60)
        return held

    def serve(self, lanes: Collection[Priority]) -> None:
        for stripe, queue in self.memory.stripes.items():
            while stripe.priority in lanes and (more := queue.take(10)):
                for message in more:
                    queue.delete(message.receipt)


@pytest.mark.parametrize(
    ("crowded", "held", "part"),
    [(LOW, [LOW], "default_low"), (NORMAL, [HIGH, NORMAL], None), (HIGH, [HIGH, NORMAL], None)],
)
def test_a_full_low_lane_holds_low_runs_alone(crowded: Priority, held: list[Priority], part: str | None) -> None:
    world = Laned()
    world.go_on(2, serving=list(Priority))
    world.crowd(crowded)
    assert world.go_on(30, serving=set(Priority) - set(held))[-1] == [part or "default"]
    claimed = {priority: len(world.fires(f"acme/{priority}")) for priority in Priority}
    assert {priority for priority, number in claimed.items() if number < 20} == set(held)
    assert min(claimed[priority] for priority in set(Priority) - set(held)) >= 30
    log = read_hold_log(world.services)
    assert log.of(part).now is not None
    assert set(log.queues) == {part}
    (queue,) = survey_queues(world.services, world.clock())
    assert queue.holds is not None
    assert queue.holds.now is not None, "and that is shown"


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


class ClaimOrder(Hook):
    """Notes the owners of the runs of each claim, in order."""

    def __init__(self) -> None:
        self.owners = list[str]()

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        if detail.verb == "claim":
            self.owners += [str(getattr(item, "owner", item)) for item in detail.items]
        return ()


def test_a_ticker_that_is_behind_takes_the_most_urgent_of_a_page_first() -> None:
    world = Laned()
    for priority in Priority:
        world.scheduler.delete_schedule(str(priority))
    for number, priority in enumerate([LOW, NORMAL, HIGH]):
        world.scheduler.create_schedule(f"late-{priority}", "note", f"{number} 18 * * *", priority=priority)
    entries = [entry.priority for entry in world.memory.entries() if "late-" in entry.id]
    assert entries == [LOW, NORMAL, HIGH], "by time"
    world.wait(7 * 3600)
    hook = ClaimOrder()
    world.tick(world.process(hook))
    assert hook.owners == ["acme/late-high", "acme/late-normal", "acme/late-low"]
