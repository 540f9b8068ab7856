"""Children of a cancelled run whose row does not name them: of an attempt that failed before its run parked."""

from __future__ import annotations

from contextlib import suppress

import pytest
from quarterjack import Context, Retry, Submission
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import RunRow
from quarterjack.testing import Crash
from quarterjack.testing.process import Hand

from tests.support.scenes.world import Faults, World, crash

OFTEN = Retry(max_attempts=5, base=30.0, jitter=0.0)


def run_of(world: World, run_id: str) -> RunRow:
    run = world.services.ledger.read(parse_run_id(run_id))
    assert run is not None
    return run


def first_message(world: World) -> None:
    """A worker takes one message, and what that brings stays for others."""
    Hand(worker=world.worker()).work(most=1)


def abandoned(world: World, child: str) -> tuple[str, str]:
    """A run whose attempt has submitted a child and failed, and that child, which has begun."""

    @world.jobs.job("parent", retry=OFTEN)
    def parent(ctx: Context, payload: object) -> object:
        ctx.submit(child, step="c")
        raise ValueError("before it parks")

    run = world.scheduler.submit("parent")
    first_message(world)
    with suppress(Crash):
        first_message(world)
    (found,) = (each for each in world.memory.runs() if each.parent == run.id)
    assert found.fence == 1
    return run.id, str(found.ref)


@pytest.mark.parametrize("end", ["fails", "parks", "dies"])
def test_a_child_that_has_begun_starts_no_further_slice(end: str) -> None:
    world, slices = World(), list[int]()

    @world.jobs.job("child", retry=OFTEN)
    def child(ctx: Context, payload: object) -> None:
        slices.append(ctx.fence)
        if end == "fails":
            raise ValueError("again")
        if end == "dies":
            raise Crash
        ctx.sleep(60)

    parent, mine = abandoned(world, "child")
    assert run_of(world, mine).state == {"fails": "RETRYING", "parks": "PARKED", "dies": "RUNNING"}[end]
    world.scheduler.cancel_run(parent)
    world.live(300)
    assert (run_of(world, parent).state, run_of(world, mine).state, slices) == ("CANCELLED", "CANCELLED", [1])


def test_a_child_of_a_run_that_is_not_cancelled_goes_on() -> None:
    world = World()

    @world.jobs.job("child", retry=OFTEN)
    def child(ctx: Context, payload: object) -> int:
        if ctx.attempt == 1:
            raise ValueError("again")
        return ctx.attempt

    _, mine = abandoned(world, "child")
    world.live(120)
    assert run_of(world, mine).result == "2"


def test_an_item_of_a_cancelled_batch_that_has_begun_goes_on() -> None:
    world = World()

    @world.jobs.job("item", retry=OFTEN)
    def item(ctx: Context, payload: object) -> int:
        if ctx.attempt == 1:
            raise ValueError("again")
        return ctx.attempt

    batch = world.scheduler.submit_all([Submission("item"), Submission("item", delay=600)], on_end="note")
    first_message(world)
    world.scheduler.cancel_run(batch.on_end or "")
    world.live(900)
    assert [run_of(world, each.run_id or "").state for each in batch.items] == ["SUCCEEDED", "CANCELLED"]


@pytest.mark.parametrize("worker_dies", [False, True])
def test_children_that_a_row_names_end_although_the_owner_who_cancelled_it_died_before_them(
    *, worker_dies: bool
) -> None:
    world = World()
    world.jobs.job("asks")(lambda ctx, payload: ctx.wait_for("go"))

    @world.jobs.job("parent")
    def parent(ctx: Context, payload: object) -> None:
        ctx.submit("asks", step="c")
        ctx.sleep(10)
        with pytest.raises(Crash):
            world.owner(Faults().at("request_cancel", after=crash)).cancel_run(ctx.run_id)
        if worker_dies:
            raise Crash
        worker.heartbeat.beat(world.clock())
        ctx.raise_if_cancelled()

    run, worker = world.scheduler.submit("parent"), world.worker()
    Hand(worker=worker).work()
    (child,) = (each for each in world.memory.runs() if each.parent == run.id)
    with suppress(Crash):
        world.live(20, worker=worker)
    world.live(300)
    assert [str(run_of(world, each).state) for each in (run.id, str(child.ref))] == ["CANCELLED", "CANCELLED"]
