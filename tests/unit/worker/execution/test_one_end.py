"""An attempt ends once: its run, its own row and its outcome say the same, however long it takes to write them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

import pytest
from quarterjack import Retry, RunState
from quarterjack.domain.times import SECOND
from quarterjack.testing import Hook
from quarterjack.testing.memory.calls import Detail
from quarterjack.worker.stages import Outcome

from tests.support.scenes.world import World, at


class SlowRequests(Hook):
    """Each takes 150 ms."""

    def __init__(self, world: World) -> None:
        self._world = world

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        del operation, detail
        self._world.clock.advance(timedelta(milliseconds=150))
        return ()


@pytest.mark.parametrize("start", ["prompt", "exact"])
@pytest.mark.parametrize(("attempts", "state"), [(1, RunState.DEAD), (3, RunState.RETRYING)])
def test_run_attempt_and_outcome_agree_on_begin_and_end(start: str, attempts: int, state: RunState) -> None:
    world = World()
    world.during = lambda ctx: world.wait(7)
    options = {"run_at": at(5.5), "start": start, "retry": Retry(max_attempts=attempts)}
    run = world.scheduler.submit("bad", **options)  # type: ignore[arg-type]
    world.wait(4)
    outcomes: list[Outcome] = []
    while not outcomes:
        outcomes = [one for one in world.work(world.worker(SlowRequests(world)), together=True) if one.state]
        world.wait(0.5)
    found = world.scheduler.get_run(run.id)
    (attempt,) = found.failed_attempts
    assert found.state is state
    assert attempt.started_at == found.started_at
    assert (attempt.ended_at - attempt.started_at) // timedelta(milliseconds=1) == outcomes[0].duration
    assert outcomes[0].duration is not None
    assert outcomes[0].duration >= 7 * SECOND
    if state is RunState.DEAD:
        assert found.ended_at == attempt.ended_at
    else:
        assert attempt.next_attempt_at is not None
        assert attempt.next_attempt_at > attempt.ended_at
