"""An act on 100,000 runs whose process dies three times: each run once, and the counts are right."""

from __future__ import annotations

from collections import Counter

import pytest
from quarterjack import Scheduler, Submission
from quarterjack.domain.run import RunState
from quarterjack.sdk.schedules.bulk_work import BulkProgress
from quarterjack.settings import Settings
from quarterjack.testing import Crash

from tests.support.scenes.searched import World
from tests.support.scenes.world import Mortal

MANY, PART = 100_000, 10_000
DEATHS = (20_001, 150_002, 90_003)  # requests after which the process makes no further one


class Hurry:
    """The rate's waits take no time."""

    def wait(self, timeout: float) -> bool:
        return False


@pytest.mark.proof
def test_each_of_100_000_runs_once_although_the_process_dies_three_times() -> None:
    world = World()
    for part in range(MANY // PART):
        items = [
            Submission("works", delay=86_400 + part * PART + n, tags={"customer": str(n % 10)}) for n in range(PART)
        ]
        world.owner.submit_all(items, idempotency_key=f"part-{part}")
        world.catch_up()
    told: list[int] = []

    def hear(progress: BulkProgress) -> None:
        told.append(progress.done)

    def act(owner: Scheduler) -> int:
        return owner.bulk_runs(
            "cancel",
            tag="customer",
            state="QUEUED",
            client_token="t",
            rate=1_000.0,
            stop=Hurry(),
            on_progress=hear,
        ).count

    for at in DEATHS:
        services = world.memory.connect(Mortal(at, after=at % 2 == 0))
        with pytest.raises(Crash):
            act(Scheduler("acme", settings=Settings(), services=services, clock=world.clock, jobs=world.jobs))
        world.catch_up()
    assert act(world.owner) == MANY
    assert max(told) == MANY
    assert Counter(run.state for run in world.memory.runs()) == {RunState.CANCELLED: MANY}
