"""Cancelling runs: before they start nothing starts; while they run they see it at a heartbeat; after the grace they are given up."""

from __future__ import annotations

import contextlib
import random
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Context, Retry, RunState
from quarterjack.domain.times import SECOND
from quarterjack.errors import LeaseLost, RunCancelled
from quarterjack.state.lease import HEARTBEAT
from quarterjack.testing import Crash
from quarterjack.testing.process import work_off
from quarterjack.worker.delivery.receive import receive

from tests.support.scenes.threads import Threads
from tests.support.scenes.world import Faults, World, at, crash

MANY = 1_000


# Before the start.


def test_of_a_thousand_runs_cancelled_before_their_start_none_starts() -> None:
    """Some messages are already at a worker when their run is cancelled."""
    world, chance = World(), random.Random(4)
    runs = [world.scheduler.submit("note", delay=chance.randint(0, 120)) for _ in range(MANY)]
    worker = world.worker()
    received = receive(worker, world.services.work.receive(most=10, wait=0, visibility=60))
    for run in runs:
        assert world.scheduler.cancel_run(run.id).state is RunState.CANCELLED
    work_off(worker, received)
    world.live(200)
    assert world.started == []
    assert {run.state for run in world.memory.runs()} == {RunState.CANCELLED}
    assert len(world.memory.work) == 0


def test_claimed_fires_of_a_schedule_are_cancelled_in_bulk() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "*/25 * * * * *")
    assert world.fires() == [25, 50, 60], "what is not claimed yet is not touched"
    between = (at(25), at(120))
    assert world.scheduler.cancel_runs("s", between=between, dry_run=True) == 2
    assert world.scheduler.cancel_runs("s", between=between) == 2
    assert world.scheduler.cancel_runs("s", between=between) == 0
    world.live(120)
    assert world.began() == [25, 85, 110, 120]


def test_a_run_that_waits_for_its_next_attempt_has_none() -> None:
    world = World()
    run = world.scheduler.submit("bad")
    world.work()
    assert world.scheduler.get_run(run.id).state is RunState.RETRYING
    assert world.scheduler.cancel_run(run.id).state is RunState.CANCELLED
    world.live(60)
    assert len(world.started) == 1


def test_one_that_fails_after_it_was_asked_to_end_has_no_further_attempt() -> None:
    """The attempt ends before a heartbeat could tell it."""
    world = World()

    def cancel(ctx: Context) -> None:
        world.scheduler.cancel_run(ctx.run_id)

    world.during = cancel
    run = world.scheduler.submit("bad")
    world.live(60)
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.attempt, len(world.started)) == (RunState.CANCELLED, 1, 1)


def test_one_that_its_worker_left_is_cancelled_when_its_message_comes_back() -> None:
    world = World()
    run = world.scheduler.submit("note")
    worker = world.worker(Faults().at("succeed", before=crash))
    with pytest.raises(Crash):
        world.work(worker)
    asked = world.scheduler.cancel_run(run.id)
    assert (asked.state, asked.cancel_requested) == (RunState.RUNNING, True)
    world.live(100, worker=worker)
    found = world.scheduler.get_run(run.id)
    assert (found.state, len(world.started)) == (RunState.CANCELLED, 1)


def test_an_ended_run_stays_as_it_is() -> None:
    world = World()
    run = world.scheduler.submit("note")
    world.work()
    assert world.scheduler.cancel_run(run.id).state is RunState.SUCCEEDED


# While it runs.


def test_a_running_job_sees_it_at_the_next_heartbeat_and_may_clean_up() -> None:
    world, seen = World(), list[Any]()
    worker = world.worker()

    @world.jobs.job("long")
    def long(ctx: Context, payload: Any) -> None:
        for _ in range(10):
            seen.append(ctx.cancelled)
            world.scheduler.cancel_run(ctx.run_id)
            world.wait(HEARTBEAT / SECOND)
            worker.heartbeat.beat(world.clock())
            try:
                ctx.raise_if_cancelled()
            except RunCancelled:
                ctx.checkpoint("cleaned up") if payload == "checkpoint" else seen.append("cleaned up")
                raise

    run = world.scheduler.submit("long")
    world.wait(1)  # what starts at its very instant may have been leased ahead, and who cancels it waits
    world.work(worker)
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.reason) == (RunState.CANCELLED, "requested")
    assert found.ended_at == found.started_at + timedelta(milliseconds=HEARTBEAT)  # type: ignore[operator]
    assert seen == [False, "cleaned up"]


def test_a_step_does_not_begin_after_it_and_one_that_runs_is_recorded() -> None:
    world, effects = World(), []
    worker = world.worker()

    @world.jobs.job("steps")
    def steps(ctx: Context, payload: Any) -> None:
        def during() -> int:
            world.scheduler.cancel_run(ctx.run_id)
            worker.heartbeat.beat(world.clock())
            return 1

        ctx.step("runs", during)
        ctx.step("next", lambda: effects.append(1))

    run = world.scheduler.submit("steps")
    world.work(worker)
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.steps, effects) == (RunState.CANCELLED, {"runs": 1}, [])


@pytest.mark.parametrize(("end", "state"), [("fails", RunState.CANCELLED), ("succeeds", RunState.SUCCEEDED)])
def test_how_it_ends_after_it_decides(end: str, state: RunState) -> None:
    world = World()
    worker = world.worker()

    @world.jobs.job("stubborn")
    def stubborn(ctx: Context, payload: Any) -> str:
        world.scheduler.cancel_run(ctx.run_id)
        worker.heartbeat.beat(world.clock())
        if end == "fails":
            raise OSError("interrupted")
        return "was done anyway"

    run = world.scheduler.submit("stubborn")
    world.work(worker)
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.cancel_requested) == (state, True)
    assert found.error_type == ("OSError" if end == "fails" else None)
    assert len(world.memory.dead) == 0


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (
            RunCancelled("enough"),
            "the job raised RunCancelled, but nobody has asked for the cancellation of its run: enough",
        ),
        (LeaseLost("mine"), "the job raised LeaseLost, but this worker holds the lease of its run: mine"),
    ],
)
@pytest.mark.parametrize("together", [False, True])
def test_what_a_job_claims_without_ground_is_a_failure_like_any_other(
    problem: Exception, text: str, *, together: bool
) -> None:
    world = World()

    @world.jobs.job("plain", retry=Retry(max_attempts=2, base=4.0))
    def plain(ctx: Context, payload: Any) -> str:
        if ctx.attempt == 1:
            raise problem
        return "second"

    @world.jobs.job("awaited", retry=Retry(max_attempts=1))
    async def awaited(ctx: Context, payload: Any) -> None:
        raise problem

    runs = [world.scheduler.submit(name) for name in ("plain", "awaited")]
    world.work(together=together)
    first, last = (world.scheduler.get_run(run.id) for run in runs)
    assert (first.state, first.attempt, first.error) == (RunState.RETRYING, 1, text)
    assert (last.state, last.error_type, last.error) == (RunState.DEAD, type(problem).__name__, text)
    world.live(10)  # its backoff, and not the end of a lease
    again = world.scheduler.get_run(runs[0].id)
    assert (again.state, again.result) == (RunState.SUCCEEDED, "second")
    assert [attempt.error for attempt in again.failed_attempts] == [text]


def test_a_lease_that_is_lost_in_fact_is_nobodys_failure() -> None:
    world = World()
    worker = world.worker()

    @world.jobs.job("robbed")
    def robbed(ctx: Context, payload: Any) -> None:
        worker.heartbeat.all()[0].lose()
        ctx.raise_if_cancelled()

    run = world.scheduler.submit("robbed")
    assert [outcome.why for outcome in world.work(worker)] == ["lease_lost"]
    assert world.scheduler.get_run(run.id).state is RunState.RUNNING


def test_a_job_that_swallows_it_is_given_up_after_its_grace() -> None:
    threads = Threads()

    @threads.world.jobs.job("deaf", cancel_grace=15.0)
    def deaf(ctx: Context, payload: Any) -> str:
        threads.began.set()
        threads.go_on.wait()
        with contextlib.suppress(LeaseLost, RunCancelled):
            ctx.raise_if_cancelled()
        threads.over.set()
        return "never mind"

    run = threads.start("deaf")
    threads.world.scheduler.cancel_run(run.id)
    threads.beat()
    threads.skip(14)
    assert not threads.outcomes
    threads.skip(1)
    assert threads.end().state is RunState.CANCELLED
    assert threads.abandoned, "the process recycles itself"
    threads.release()
    found = threads.look(run)
    assert (found.state, found.reason) == (RunState.CANCELLED, "did not end within 15 s of its cancellation")
    assert found.result is None


def test_a_retry_may_be_hastened() -> None:
    world = World()
    run = world.scheduler.submit("bad", retry=Retry(max_attempts=3, base=3000.0))
    world.work()
    world.scheduler.retry_run(run.id)
    world.work()
    assert world.scheduler.get_run(run.id).attempt == 2
