"""How long a killed at-most-once run stays RUNNING: as docs/how-to/exactly-once.md says, wherever in their minute ticks come."""

from __future__ import annotations

import pytest
from quarterjack import Context, RunState
from quarterjack.domain.times import SECOND
from quarterjack.state.lease import HEARTBEAT
from quarterjack.testing import Crash

from tests.support.scenes.world import NOON, World

SILENT = 71  # seconds after its last heartbeat until everybody may take the run of a worker


def let_pass(world: World, seconds: int, *, apart: int, phase: int) -> None:
    """Ticks come every ``apart`` seconds, at ``phase``."""
    for _ in range(seconds):
        world.wait(1)
        if (world.clock() - NOON) // SECOND % apart == phase:
            world.tick()


def seconds_until_lost(*, beats: int, apart: int, phase: int) -> float:
    """From the last heartbeat to the end that the ledger records."""
    world = World()
    world.scheduler.submit("once")
    worker = world.worker()

    def live_and_die(ctx: Context) -> None:
        for _ in range(beats):
            let_pass(world, HEARTBEAT // SECOND, apart=apart, phase=phase)
            worker.heartbeat.beat(world.clock())
        raise Crash

    world.during = live_and_die
    with pytest.raises(Crash):
        world.work(worker)
    last = world.clock()
    let_pass(world, SILENT + apart, apart=apart, phase=phase)
    (run,) = world.memory.runs()
    assert run.state is RunState.LOST, f"ticks every {apart} s at {phase}"
    assert len(world.memory.dead) == 1
    assert (run.attempt, len(world.started)) == (1, 1)
    return ((run.ended_at or 0) - last) / SECOND


@pytest.mark.parametrize("beats", [0, 1, 4])
@pytest.mark.parametrize(("apart", "worst"), [(60, 130), (119, 189)])  # AWS starts a tick anywhere in its minute
def test_it_is_lost_at_the_first_tick_after_its_lease_whatever_the_phase(apart: int, worst: int, beats: int) -> None:
    took = [seconds_until_lost(beats=beats, apart=apart, phase=phase) for phase in range(apart)]
    assert (min(took), max(took)) == (SILENT, worst)
    assert len(set(took)) == apart, "each phase has its own"
