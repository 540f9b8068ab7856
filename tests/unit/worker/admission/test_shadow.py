"""Shadow schedules: the clock runs, the runs and their lateness are recorded, and no job starts."""

from __future__ import annotations

from contextlib import suppress

import pytest
from quarterjack import RunState
from quarterjack.testing import Crash
from quarterjack.testing.process import work_off
from quarterjack.worker.delivery.receive import receive
from quarterjack.worker.delivery.visibility import HIDDEN

from tests.support.scenes.world import NOON, OWNER, Faults, World, crash, fails


def shadow(**options: object) -> World:
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *", shadow=True, **options)  # type: ignore[arg-type]
    return world


def test_runs_are_recorded_with_their_lateness_and_no_job_starts() -> None:
    world = shadow()
    world.live(170)
    assert world.started == []
    assert [run.state for run in world.memory.runs(OWNER)[:2]] == [RunState.SHADOWED] * 2
    run = world.run(60)
    assert (run.lateness, run.attempt, run.fence, run.reason) == (0, 0, 0, "shadow")
    assert world.memory.row(run.ref)["ttl"] > NOON // 1_000  # type: ignore[index]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("what", [crash, fails])
@pytest.mark.parametrize("verb", ["shadow", "erase"])
def test_a_worker_that_dies_is_followed_by_one_that_finds_it_ended(verb: str, what: object, moment: str) -> None:
    world = shadow()
    world.live(59)
    world.wait(1)
    worker = world.worker(Faults().at(verb, **{moment: what}))
    with suppress(Crash):
        world.work(worker)
    world.wait(120)
    world.work()
    assert world.run(60).state is RunState.SHADOWED
    assert world.started == []
    assert 60 not in world.sent() or verb == "erase"


def test_a_duplicate_changes_nothing() -> None:
    world = shadow()
    world.live(59)
    world.wait(1)
    worker = world.worker()
    (delivery,) = world.services.work.receive(most=1, wait=0, visibility=HIDDEN)
    (first,) = work_off(worker, receive(worker, [delivery]))
    world.wait(1)
    (second,) = work_off(worker, receive(worker, [delivery]))
    assert (first.action, first.state, first.start_lag) == ("settled", RunState.SHADOWED, 0)
    assert (second.action, second.why) == ("refused", "ended")


def test_a_pause_and_a_deadline_decide_before_it() -> None:
    world = shadow(deadline=30)
    world.live(59)
    world.wait(60)
    world.work()
    assert world.run(60).state is RunState.EXPIRED
    world.scheduler.pause_schedule("s")
    assert world.run(120).state is RunState.CANCELLED


def test_a_schedule_leaves_the_shadow_with_its_next_revision() -> None:
    world = shadow()
    world.live(70)
    world.scheduler.update_schedule("s", shadow=False)
    world.live(60)
    assert world.began() == [120]
    assert world.run(60).state is RunState.SHADOWED
