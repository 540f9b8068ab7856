"""What a job returns: kept where it fits, noted where it cannot be kept, never a failure; and waiting for it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from quarterjack import Context, RunState
from quarterjack.domain.message import INLINE_PAYLOAD
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.payload import LARGEST_RESULT
from quarterjack.errors import InvalidInput, NotFinished, NotFound
from quarterjack.worker.execution.settle import SMALL_RESULT

from tests.support.scenes.world import Faults, World, fails


class Unprintable:
    def __repr__(self) -> str:
        raise ValueError("not even that")


def returned(world: World, value: Any, faults: Faults | None = None) -> Any:
    """The run of a job that returns this."""
    world.jobs.job("returns")(lambda ctx, payload: value)
    run = world.scheduler.submit("returns")
    world.work(world.worker(faults))
    return world.scheduler.get_run(run.id)


@pytest.mark.parametrize("value", [None, 0, False, "", [], {"a": [1, 2.5, "ü", None]}])
def test_a_small_result_is_in_the_row(value: Any) -> None:
    world = World()
    run = returned(world, value)
    assert (run.state, run.result, run.reason) == (RunState.SUCCEEDED, value, None)
    assert ("result" in (world.memory.row(parse_run_id(run.id)) or {})) == (value is not None)


@pytest.mark.parametrize(
    ("length", "where"),
    [
        (SMALL_RESULT - 2, None),
        (SMALL_RESULT - 1, "beside"),
        (INLINE_PAYLOAD - 2, "beside"),
        (LARGEST_RESULT - 2, "results/"),
    ],
)
def test_a_result_lies_where_it_fits(length: int, where: str | None) -> None:
    world = World()
    run = returned(world, "x" * length)
    assert (run.state, run.result) == (RunState.SUCCEEDED, "x" * length)
    ref = (world.memory.row(parse_run_id(run.id)) or {}).get("result_ref")
    assert ref is where is None or str(ref).startswith(str(where))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (object(), "is not JSON (Object of type object is not JSON serializable)"),
        (float("inf"), "is not JSON"),
        ({(1, 2): 3}, "is not JSON"),
        ("x" * LARGEST_RESULT, "has 5,242,882 bytes of JSON"),
    ],
)
def test_a_result_that_cannot_be_kept_is_noted_and_no_failure(value: Any, problem: str) -> None:
    run = returned(World(), value)
    assert (run.state, run.result, run.attempt) == (RunState.SUCCEEDED, None, 1)
    assert run.reason.startswith("result not kept: ")
    assert problem in run.reason


def test_a_result_that_cannot_even_be_named_is_no_failure() -> None:
    assert returned(World(), Unprintable()).state is RunState.SUCCEEDED


def test_a_result_that_contains_itself_is_noted() -> None:
    value: list[Any] = []
    value.append(value)
    assert "not kept" in returned(World(), value).reason


@pytest.mark.parametrize(("length", "verb"), [(1_000, "keep result"), (70_000, "put")])
def test_a_place_that_does_not_answer_costs_the_result_and_not_the_run(length: int, verb: str) -> None:
    run = returned(World(), "x" * length, Faults().at(verb, before=fails, times=None))
    assert (run.state, run.result) == (RunState.SUCCEEDED, None)
    assert "not kept" in run.reason


def test_results_lost_with_their_lease_are_nobodys() -> None:
    world = World()

    @world.jobs.job("slow")
    def slow(ctx: Context, payload: Any) -> str:
        if ctx.attempt == 1:
            world.wait(75)
            world.work(world.worker(name="second"))
        return f"{ctx.attempt}" * 1_000

    run = world.scheduler.submit("slow")
    world.work()
    assert world.scheduler.get_run(run.id).result == "2" * 1_000


def test_waiting_for_a_run_gives_its_result() -> None:
    world = World()
    world.jobs.job("answer")(lambda ctx, payload: 42)
    run = world.scheduler.submit("answer")
    timer = threading.Timer(0.2, world.work)
    timer.start()
    assert world.scheduler.wait_for(run.id, timeout=10).result == 42
    timer.join()


def test_waiting_for_a_run_that_does_not_end_says_how_it_stands() -> None:
    world = World()
    run = world.scheduler.submit("note")
    with pytest.raises(NotFinished, match="still QUEUED after"):
        world.scheduler.wait_for(run.id, timeout=0.1)
    with pytest.raises(NotFound):
        world.scheduler.wait_for("acme/~nobody#once", timeout=0.1)
    with pytest.raises(InvalidInput):
        world.scheduler.wait_for("nonsense", timeout=0.1)
