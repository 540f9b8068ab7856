"""Jobs longer than their worker: slices end at checkpoints and spend no attempt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from quarterjack import Context, Retry, RunState
from quarterjack.errors import Continue, Unavailable
from quarterjack.state import retry
from quarterjack.testing import Crash
from quarterjack.testing.process import Hand
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.execution.effects import MARGIN

from tests.support.scenes.world import Faults, World, crash, fails

PAGES = 10
PAGE = 5.0  # seconds of work


def lambda_worker(world: World, seconds: float, faults: Faults | None = None) -> WorkerContext:
    """A worker whose process has ``seconds`` from now on."""
    ends = world.clock() + seconds * 1000
    return replace(world.worker(faults), remaining=lambda: (ends - world.clock()) / 1000)


def paged(world: World, done: list[tuple[int, int]], **options: Any) -> None:
    """Declare a job of PAGES pages that notes (page, attempt)."""

    @world.jobs.job("pages", **options)
    def pages(ctx: Context, payload: Any) -> int:
        for page in range((ctx.resume or {"next": 0})["next"], PAGES):
            world.wait(PAGE)
            done.append((page, ctx.attempt))
            ctx.checkpoint({"next": page + 1})
        return len(done)


def test_a_job_goes_on_in_slices_until_it_is_done() -> None:
    """A function with 25 s has ten before the margin: a slice of three pages, for the third begins in time."""
    world, done = World(), list[tuple[int, int]]()
    paged(world, done)
    run = world.scheduler.submit("pages")
    slices = 0
    while world.memory.work:
        slices += len(Hand(worker=lambda_worker(world, MARGIN + 10)).work(most=1))
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.result, found.attempt) == (RunState.SUCCEEDED, PAGES, 1)
    assert done == [(page, 1) for page in range(PAGES)], "no page twice, no attempt spent"
    assert (found.slices, found.fence, found.failed_attempts) == (slices - 1, slices, [])
    assert slices == 4


def test_a_worker_without_a_limit_does_it_in_one() -> None:
    world, done = World(), list[tuple[int, int]]()
    paged(world, done)
    run = world.scheduler.submit("pages")
    world.work()
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.slices, found.fence) == (RunState.SUCCEEDED, 0, 1)


def test_a_job_may_end_its_slice_itself() -> None:
    world = World()

    @world.jobs.job("own")
    def own(ctx: Context, payload: Any) -> int:
        count = (ctx.resume or 0) + 1
        ctx.checkpoint(count)
        if count < 4:
            raise Continue
        return count

    run = world.scheduler.submit("own")
    world.work()
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.result, found.slices, found.attempt) == (RunState.SUCCEEDED, 4, 3, 1)


def test_a_failure_in_a_later_slice_is_one_attempt_and_resumes_from_the_last_checkpoint() -> None:
    world, seen = World(), list[tuple[int, Any]]()

    @world.jobs.job("mixed", retry=Retry(max_attempts=2, base=1.0))
    def mixed(ctx: Context, payload: Any) -> Any:
        seen.append((ctx.attempt, ctx.resume))
        at = ctx.resume or 0
        if at < 2:
            ctx.checkpoint(at + 1)
            raise Continue
        if ctx.attempt == 1:
            raise ConnectionError
        return at

    run = world.scheduler.submit("mixed")
    world.live(10)
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.attempt, found.slices) == (RunState.SUCCEEDED, 2, 2)
    assert seen == [(1, None), (1, 1), (1, 2), (2, 2)]


def test_a_job_that_never_ends_is_ended_by_its_deadline() -> None:
    world, count = World(), []

    @world.jobs.job("endless", deadline=60.0)
    def endless(ctx: Context, payload: Any) -> None:
        world.wait(7)
        count.append(1)
        ctx.checkpoint(len(count))
        raise Continue

    run = world.scheduler.submit("endless")
    world.live(120)
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.reason, len(count)) == (RunState.EXPIRED, "deadline passed", 9)


def test_a_slice_without_a_checkpoint_of_its_own_is_a_failed_attempt_and_says_what_to_do() -> None:
    """It would be followed by its like for ever; the checkpoint of an earlier slice does not count."""
    world, resumed = World(), []

    @world.jobs.job("stuck", retry=Retry(max_attempts=2, base=1.0))
    def stuck(ctx: Context, payload: Any) -> None:
        resumed.append((ctx.attempt, ctx.resume))
        if ctx.resume is None:
            ctx.checkpoint("first")
        raise Continue

    run = world.scheduler.submit("stuck")
    world.live(120)
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.attempt, found.slices, found.error_type) == (RunState.DEAD, 2, 1, "Continue")
    assert resumed == [(1, None), (1, "first"), (2, "first")]
    assert all("call ctx.checkpoint(state) before it" in attempt.error for attempt in found.failed_attempts)
    assert world.memory.entries() == []
    assert len(world.memory.work) == 0


def test_a_checkpoint_that_was_not_recorded_does_not_count() -> None:
    world = World()

    @world.jobs.job("unheard", retry=Retry(max_attempts=1))
    def unheard(ctx: Context, payload: Any) -> None:
        with pytest.raises(Unavailable):
            ctx.checkpoint(1)
        raise Continue

    run = world.scheduler.submit("unheard")
    world.work(world.worker(Faults().at("keep checkpoint", before=fails, times=None)))
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.error_type) == (RunState.DEAD, "Continue")


def test_a_stuck_slice_whose_cancellation_was_seen_is_cancelled() -> None:
    world = World()
    worker = world.worker()

    @world.jobs.job("stuck")
    def stuck(ctx: Context, payload: Any) -> None:
        world.scheduler.cancel_run(ctx.run_id)
        worker.heartbeat.beat(world.clock())
        raise Continue

    run = world.scheduler.submit("stuck")
    world.work(worker)
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.error_type) == (RunState.CANCELLED, "Continue")


def test_a_job_that_only_ever_goes_on_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "MAX_SLICES", 5)
    world, count = World(), []

    @world.jobs.job("endless", retry=Retry(max_attempts=1))
    def endless(ctx: Context, payload: Any) -> None:
        count.append(1)
        ctx.checkpoint(None)
        raise Continue

    run = world.scheduler.submit("endless")
    world.work()
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.slices, len(count)) == (RunState.DEAD, 5, 6)
    assert "has had 5 slices" in str(found.error)


def test_one_that_is_cancelled_between_slices_does_not_go_on() -> None:
    world = World()

    @world.jobs.job("sliced")
    def sliced(ctx: Context, payload: Any) -> None:
        world.scheduler.cancel_run(ctx.run_id)
        ctx.checkpoint("half")
        raise Continue

    run = world.scheduler.submit("sliced")
    world.work()
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.reason, found.slices) == (RunState.CANCELLED, "requested", 1)


@pytest.mark.parametrize("where", ["continue", "send"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_that_dies_while_it_ends_a_slice_loses_nothing(where: str, when: str) -> None:
    """Before the transition the next attempt goes on from the checkpoint; after it, the old message finds the run continued."""
    world, done = World(), list[tuple[int, int]]()
    paged(world, done)
    run = world.scheduler.submit("pages")
    worker = lambda_worker(world, MARGIN + 10, Faults().at(where, **{when: crash}))
    with pytest.raises(Crash):
        world.work(worker)
    world.live(100, worker=replace(worker, remaining=lambda: None))
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.result) == (RunState.SUCCEEDED, PAGES)
    assert [page for page, _ in done] == list(range(PAGES))
    assert found.attempt == (2 if (where, when) == ("continue", "before") else 1)
    world.live(100)
    assert len(world.memory.work) == 0


def test_a_queue_that_does_not_take_the_next_slice_delays_it() -> None:
    world, done = World(), list[tuple[int, int]]()
    paged(world, done)
    run = world.scheduler.submit("pages")
    world.work(lambda_worker(world, MARGIN + 10, Faults().at("send", before=fails, times=None)))
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.attempt) == (RunState.SUCCEEDED, 1), "the old message came back and was good enough"
    assert done == [(page, 1) for page in range(PAGES)]
