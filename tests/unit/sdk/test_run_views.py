"""What a run's view says of its worker: which one, since when, when it was last heard of, and that it has vanished."""

from __future__ import annotations

from datetime import timedelta

import pytest
from quarterjack import Context, RunState
from quarterjack.state.lease import LEASE, SKEW
from quarterjack.testing import Crash

from tests.support.scenes.world import START, World, at, crash


@pytest.fixture
def world() -> World:
    return World()


def test_a_waiting_run_says_when_it_was_created_and_has_no_worker(world: World) -> None:
    run = world.scheduler.submit("note", delay=60)
    assert (run.created_at, run.worker, run.published_at, run.leased_at) == (START, None, None, None)
    assert (run.last_heartbeat_at, run.worker_vanished) == (None, False)


def test_a_running_run_says_who_has_it_since_when_and_when_it_was_last_heard_of(world: World) -> None:
    worker, seen = world.worker(name="w1"), []

    def during(ctx: Context) -> None:
        seen.append(world.scheduler.get_run(ctx.run_id))
        world.clock.advance(timedelta(seconds=20))
        worker.heartbeat.beat(world.clock())
        seen.append(world.scheduler.get_run(ctx.run_id))

    world.during = during
    run = world.scheduler.submit("note", delay=90)
    world.live(90, worker=worker)
    first, after_beat = seen
    assert (first.state, first.worker, first.leased_at) == (RunState.RUNNING, "w1", at(90))
    assert first.published_at == START, "the message was sent ahead, with a delay"
    assert (first.last_heartbeat_at, after_beat.last_heartbeat_at) == (at(90), at(110))
    assert not after_beat.worker_vanished
    ended = world.scheduler.get_run(run.id)
    assert (ended.worker, ended.leased_at, ended.published_at) == ("w1", at(90), START)
    assert ended.last_heartbeat_at is None, "nobody holds it any more"


def test_a_retry_says_when_its_own_message_was_sent(world: World) -> None:
    run = world.scheduler.submit("bad")
    world.work()
    waiting = world.scheduler.get_run(run.id)
    assert (waiting.state, waiting.published_at) == (RunState.RETRYING, START)
    world.clock.advance(timedelta(seconds=5))
    world.scheduler.retry_run(run.id)
    world.work()
    again = world.scheduler.get_run(run.id)
    assert (again.attempt, again.published_at, again.leased_at) == (2, at(5), at(5))


def test_the_run_of_a_worker_that_vanished_says_so(world: World) -> None:
    run = world.scheduler.submit("note")
    world.during = lambda ctx: crash()
    with pytest.raises(Crash):
        world.work(world.worker(name="killed"))
    world.clock.advance(timedelta(milliseconds=LEASE + SKEW))
    assert not world.scheduler.get_run(run.id).worker_vanished, "its lease may still be renewed"
    world.clock.advance(timedelta(milliseconds=1))
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.worker, found.worker_vanished) == (RunState.RUNNING, "killed", True)
    assert found.last_heartbeat_at == START
    world.during = lambda ctx: None
    world.live(60, worker=world.worker(name="next"))
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.worker, found.worker_vanished) == (RunState.SUCCEEDED, "next", False)


def test_a_listing_says_it_too(world: World) -> None:
    world.scheduler.create_schedule("s", "note", "rate(1 minute)")
    world.during = lambda ctx: crash()
    with pytest.raises(Crash):
        world.live(60)
    world.clock.advance(timedelta(milliseconds=LEASE + SKEW + 1))
    (run,) = [run for run in world.scheduler.list_runs("s").items if run.state is RunState.RUNNING]
    assert run.worker_vanished
    (run,) = [run for run in world.scheduler.describe_schedule("s").last_runs if run.state is RunState.RUNNING]
    assert run.worker_vanished
