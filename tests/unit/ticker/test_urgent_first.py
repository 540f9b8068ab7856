"""A ticker that is behind, out of time or out of its share of writes takes the most urgent entries first."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
from quarterjack.domain.policies import Priority
from quarterjack.domain.times import SECOND
from quarterjack.testing.memory.calls import Detail, Hook
from quarterjack.ticker.fan_out import FanOutConfig

from tests.support.scenes.world import World

HIGH, NORMAL, LOW = Priority


class Order(Hook):
    """Notes what a ticker claims and sends, in order."""

    def __init__(self, after: Callable[[], object] = lambda: None) -> None:
        self.seen, self._after = list[str](), after

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        if detail.verb in ("claim", "send"):
            self.seen += [f"{detail.verb} {_name(item)}" for item in detail.items]
        return ()

    def after_call(self, operation: str, detail: Detail) -> None:
        if detail.verb == "send":
            self._after()


def _name(item: Any) -> str:
    owner = str(getattr(item, "owner", item)).removeprefix("acme/")
    return "one-off" if owner.startswith("~") else owner


def schedules(world: World, *, minutes: int = 0) -> None:
    """One of each priority, the least urgent due first: within a second of each other at 18:00."""
    for priority in (LOW, NORMAL, HIGH):
        world.scheduler.create_schedule(str(priority), "note", f"{minutes} 18 * * *", priority=priority)
        minutes += 1


def test_who_is_behind_takes_the_most_urgent_of_a_page_first() -> None:
    world = World()
    schedules(world)
    assert [entry.priority for entry in world.memory.entries()] == [LOW, NORMAL, HIGH], "by time"
    world.wait(6 * 3600 + 600)
    order = Order()
    world.tick(world.process(order))
    claims = [each for each in order.seen if each.startswith("claim")]
    assert claims == ["claim high", "claim normal", "claim low"]


def test_a_high_one_off_goes_before_the_low_fires_of_its_page() -> None:
    world = World()
    schedules(world)
    world.scheduler.submit("note", priority="high", delay=6 * 3600 + 300)
    world.wait(6 * 3600 + 600)
    order = Order()
    world.tick(world.process(order))
    assert order.seen.index("send one-off") < order.seen.index("claim normal") < order.seen.index("claim low")


def test_what_is_urgent_has_the_share_of_writes_first() -> None:
    """Waiting for the share takes as long as the units before it: what is high waits for none of what is low."""
    world, waits, order = World(), list[float](), Order()
    world.wait(6 * 3600 - 170)
    for number in range(40):
        world.scheduler.create_schedule(f"low-{number}", "note", "0 18 * * *", priority="low")
    world.scheduler.create_schedule("high", "note", "0 18 * * *", priority="high")

    def wait(seconds: float) -> None:
        waits.append(seconds)
        order.seen.append("wait")

    spread = FanOutConfig(writes=10, wait=wait)
    world.tick(world.process(order), spread=spread)
    assert order.seen[0] == "claim high"
    assert order.seen.index("wait") > order.seen.index("send high"), "the rest has to"
    assert waits
    assert waits[0] <= 1 / 10 + 0.01, "for the unit of the high one"
    assert sum(each.startswith("claim low") for each in order.seen) == 40


@pytest.mark.parametrize("seconds", [0, 60])
def test_who_runs_out_of_time_leaves_the_least_urgent(seconds: int) -> None:
    world = World()
    schedules(world)
    world.wait(6 * 3600 + 600)
    report = world.tick(world.process(Order(lambda: world.wait(seconds))), budget=50 * SECOND)
    claimed = {priority: len(world.fires(f"acme/{priority}")) for priority in Priority}
    assert claimed == ({HIGH: 1, NORMAL: 0, LOW: 0} if seconds else dict.fromkeys(Priority, 1))
    assert report.stopped is bool(seconds)
    world.tick()
    assert {len(world.fires(f"acme/{priority}")) for priority in Priority} == {1}, "and the next tick has it"
