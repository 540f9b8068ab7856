"""A job that is called again after a wait: requests that it leaves out, checkpoints beside waits, the instant of a timeout."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack import Context, Retry
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import RunRow
from quarterjack.errors import Continue, Permanent, WaitTimedOut

from tests.support.scenes.world import World

RETRY = Retry(max_attempts=2, base=1.0, jitter=0.0)


def parked(world: World, job: Any) -> str:
    """A run of this job, after its first slice."""
    world.jobs.job("waits", retry=RETRY)(job)
    run = world.scheduler.submit("waits")
    world.work()
    return run.id


def run_of(world: World, run_id: str) -> RunRow:
    run = world.services.ledger.read(parse_run_id(run_id))
    assert run is not None
    return run


def failure_of(world: World, run_id: str) -> tuple[str, str]:
    failure = run_of(world, run_id).failure
    assert failure is not None
    return failure.kind, failure.message


# Requests that are left out.


def test_a_return_without_a_wait_of_before_fails_and_names_it() -> None:
    world, names = World(), ["a", "b"]

    def job(ctx: Context, payload: object) -> str:
        for name in names:
            ctx.wait_for(name)
        return "over"

    run_id = parked(world, job)
    world.scheduler.signal(run_id, "a")
    world.live(2)
    assert run_of(world, run_id).awaits == "signal:b"
    del names[1]
    world.scheduler.signal(run_id, "b")
    world.live(60)
    kind, message = failure_of(world, run_id)
    assert (run_of(world, run_id).state, kind) == ("DEAD", "Diverged")
    assert "request 2 of this run was 'signal b' before, and the job has returned without it now" in message


def test_a_return_without_any_request_of_before_fails() -> None:
    """Also if the record lies beside the row, and the job does not touch its waits."""
    world, steps = World(), [f"{'n' * 40}-{number}" for number in range(10)]

    def job(ctx: Context, payload: object) -> None:
        if steps:
            ctx.gather([ctx.submit("note", step=step) for step in steps])
            ctx.wait_for("approval")

    run_id = parked(world, job)
    world.live(5)
    run = run_of(world, run_id)
    assert (run.awaits, run.asked_before) == ("signal:approval", 11)
    first, steps[:] = steps[0], []
    world.scheduler.signal(run_id, "approval")
    world.live(60)
    assert f"request 1 of this run was 'child {first}' before" in failure_of(world, run_id)[1]


@pytest.mark.parametrize(("error", "kind"), [(ValueError, "ValueError"), (Permanent, "Permanent")])
def test_a_job_that_fails_before_it_has_asked_again_fails_by_its_own_error(error: type[Exception], kind: str) -> None:
    world, calls = World(), list[int]()

    def job(ctx: Context, payload: object) -> None:
        calls.append(ctx.fence)
        if len(calls) > 1:
            raise error("no")
        ctx.sleep(60)

    run_id = parked(world, job)
    world.live(120)
    assert (run_of(world, run_id).state, failure_of(world, run_id)[0]) == ("DEAD", kind)


def test_an_attempt_that_asks_again_after_a_failure_and_a_slice_that_ends_early_are_no_divergence() -> None:
    world, calls = World(), list[int]()

    def job(ctx: Context, payload: object) -> str:
        calls.append(ctx.fence)
        if len(calls) == 2:
            raise ValueError("passing")
        if len(calls) == 3:
            ctx.checkpoint(1)
            raise Continue
        ctx.sleep(60)
        return "over"

    run_id = parked(world, job)
    world.live(120)
    assert (run_of(world, run_id).result, len(calls)) == ('"over"', 4)


# Checkpoints.


def test_a_wait_after_a_checkpoint_is_refused() -> None:
    world = World()

    def job(ctx: Context, payload: object) -> None:
        ctx.checkpoint({"page": 1})
        ctx.sleep(60)

    kind, message = failure_of(world, parked(world, job))
    assert kind == "InvalidInput"
    assert "wait='sleep 1': is a new wait after a checkpoint" in message
    assert "after the last wait" in message


def test_a_wait_after_the_checkpoint_of_an_earlier_attempt_is_refused() -> None:
    world, calls = World(), list[int]()

    def job(ctx: Context, payload: object) -> None:
        calls.append(ctx.fence)
        if ctx.resume is None:
            ctx.checkpoint({"page": 1})
            raise ValueError("passing")
        ctx.wait_for("approval")

    run_id = parked(world, job)
    world.live(60)
    assert "wait='signal approval'" in failure_of(world, run_id)[1]


def test_checkpoints_after_the_last_wait_go_on_where_they_were() -> None:
    """Wherever the job reads them: the waits before them are answered from the record. Children may follow."""
    world, pages = World(), list[int]()

    def job(ctx: Context, payload: object) -> int:
        state = ctx.resume
        ctx.sleep(60)
        for page in range(0 if state is None else state, 4):
            pages.append(page)
            ctx.submit("note", page, step=f"page-{page}")
            ctx.checkpoint(page + 1)
            if page == 1:
                raise Continue
        return len(pages)

    run_id = parked(world, job)
    world.live(120)
    assert (run_of(world, run_id).result, pages) == ("4", [0, 1, 2, 3])


# The instant of a timeout.


def test_a_timeout_names_the_end_of_its_wait() -> None:
    """Not the instant at which a worker found it over."""
    world = World()

    def job(ctx: Context, payload: object) -> str:
        try:
            ctx.wait_for("approval", timeout=600)
        except WaitTimedOut as problem:
            return str(problem)
        return "answered"

    run_id = parked(world, job)
    ends_at = run_of(world, run_id).wake_at
    world.wait(5_000)  # nothing works meanwhile
    world.live(120)
    assert run_of(world, run_id).result == "\"no signal 'approval' came until 2026-05-04T12:10:00+00:00\""
    row = world.services.waits.signal(parse_run_id(run_id), "approval")
    assert (row and row.at) == ends_at
