"""A ticker that stalls over its claims until its schedule is gone: what it then leaves behind is found by the auditor."""

from __future__ import annotations

import pytest
from quarterjack import RunState
from quarterjack.domain.times import HOUR
from quarterjack.testing import Crash

from tests.support.scenes.world import NOON, Faults, World, crash, fails

CLAIMED = [600, 840]  # together, as the windows of acme/s end at 12:15:05


def left_behind(world: World, faults: Faults) -> None:
    """Before its claims arrive, the schedule is deleted, and another ticker ends the chain."""

    def meanwhile() -> None:
        world.scheduler.delete_schedule("s")
        world.wait(600)  # the lock that the stalled one has on the shard runs out
        world.tick(holder="another")
        assert world.chain() == []

    world.scheduler.create_schedule("s", "note", "10,14 * * * *")
    world.wait(480)
    world.tick(world.process(faults.at("claim", before=meanwhile)), holder="stalled")


@pytest.mark.parametrize("how", [fails, crash], ids=["fails", "dies"])
def test_what_it_claimed_and_could_not_send_never_starts_and_comes_to_an_end(how: object) -> None:
    world = World()
    faults = Faults().at("send", before=how, times=None)
    try:
        left_behind(world, faults)
    except Crash:
        assert how is crash
    assert world.states() == [(second, RunState.QUEUED) for second in CLAIMED]
    world.live(1200)
    assert world.states() == [(second, RunState.QUEUED) for second in CLAIMED], "nothing waits for them"

    world.reach(NOON + 3 * HOUR)
    world.audit(segments=1)
    world.live(60)
    assert world.states() == [(second, RunState.CANCELLED) for second in CLAIMED]
    assert world.started == []


def test_what_it_claimed_and_sent_is_refused_by_the_worker() -> None:
    world = World()
    left_behind(world, Faults())
    world.live(1200)
    assert world.states() == [(second, RunState.CANCELLED) for second in CLAIMED]
    assert world.started == []
