"""Middleware around an attempt: in its order, sync and async, and whose a failure is."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

import pytest
from quarterjack import CallNext, Context, Middleware, Registry, Retry, Run, RunState, Submission
from quarterjack.errors import Continue, JobError, Permanent, RunCancelled
from quarterjack.middlewares import added

from tests.support.scenes.world import World

ONCE = Retry(max_attempts=1)
HERE = __name__
seen = list[str]()  # what happened, in order


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


def layer(word: str) -> Middleware:
    def middleware(ctx: Context, payload: Any, call_next: CallNext) -> Any:
        seen.append(f"{word}(")
        try:
            return call_next(payload)
        finally:
            seen.append(f"){word}")

    return middleware


def async_layer(word: str) -> Middleware:
    async def middleware(ctx: Context, payload: Any, call_next: CallNext) -> Any:
        await asyncio.sleep(0)
        seen.append(f"{word}(")
        try:
            return await call_next(payload)
        finally:
            seen.append(f"){word}")

    return middleware


def plain(ctx: Context, payload: Any) -> Any:
    seen.append("job")
    return payload


async def awaited(ctx: Context, payload: Any) -> Any:
    await asyncio.sleep(0)
    return plain(ctx, payload)


def result_of(function: Callable[[Context, Any], Any], middleware: list[Middleware], payload: Any = 1) -> Run:
    world = World()
    world.jobs.job("j", middleware=middleware, retry=ONCE)(function)
    run = world.scheduler.submit("j", payload)
    world.work()
    return world.scheduler.get_run(run.id)


# Order.


@pytest.mark.parametrize("function", [plain, awaited])
@pytest.mark.parametrize(
    "layers",
    [
        [layer("a"), layer("b")],
        [async_layer("a"), async_layer("b")],
        [layer("a"), async_layer("b")],
    ],
    ids=["plain", "async", "mixed"],
)
def test_the_first_one_is_outermost(layers: list[Middleware], function: Callable[[Context, Any], Any]) -> None:
    run = result_of(function, layers, {"n": 1})
    assert (run.state, run.result) == (RunState.SUCCEEDED, {"n": 1}), run.error
    assert seen == ["a(", "b(", "job", ")b", ")a"]


def test_a_plain_one_within_an_async_one_goes_with_a_plain_job_alone() -> None:
    layers = [async_layer("a"), layer("b")]
    assert result_of(plain, layers).state is RunState.SUCCEEDED
    run = result_of(awaited, layers)
    assert (run.state, run.error_type) == (RunState.DEAD, "JobError")
    assert f"middleware {HERE}.layer.<locals>.middleware is not async" in (run.error or "")


def test_those_of_the_registry_are_outside_whenever_they_were_declared() -> None:
    world = World()
    world.jobs.middleware(layer("first"))
    world.jobs.job("j", middleware=[layer("own")])(plain)
    world.jobs.middleware(layer("second"))
    world.scheduler.submit("j")
    world.work()
    assert seen == ["first(", "second(", "own(", "job", ")own", ")second", ")first"]


def test_payload_and_result_pass_through_it() -> None:
    def doubled(ctx: Context, payload: Any, call_next: CallNext) -> Any:
        return {"twice": call_next(payload * 2)}

    assert result_of(plain, [doubled], 4).result == {"twice": 8}


def test_a_typed_payload_is_converted_before() -> None:
    def typed(ctx: Context, payload: dict[str, int]) -> int:
        return payload["n"]

    def looks(ctx: Context, payload: Any, call_next: CallNext) -> Any:
        seen.append(repr(payload))
        return call_next(payload)

    assert result_of(typed, [looks], {"n": 1}).state is RunState.SUCCEEDED
    assert seen == ["{'n': 1}"]


def test_what_a_middleware_sets_in_its_context_the_job_sees() -> None:
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant")

    def sets(ctx: Context, payload: Any, call_next: CallNext) -> Any:
        tenant.set(ctx.tenant)
        return call_next(payload)

    async def reads(ctx: Context, payload: Any) -> str:
        return tenant.get()

    assert result_of(reads, [sets]).result == "acme"


# Failures.


class Boom(Exception):
    """Whoever raises it."""


def fails_in(phase: str, when: str) -> None:
    if phase == when:
        raise Boom("mine")


def failing(when: str) -> Middleware:
    """Fails in that phase."""

    def middleware(ctx: Context, payload: Any, call_next: CallNext) -> Any:
        fails_in("before", when)
        try:
            result = call_next(payload)
        except ValueError:
            fails_in("failed", when)
            raise
        fails_in("after", when)
        return result

    return middleware


def failing_later(when: str) -> Middleware:
    """The same, async."""

    async def middleware(ctx: Context, payload: Any, call_next: CallNext) -> Any:
        fails_in("before", when)
        try:
            result = await call_next(payload)
        except ValueError:
            fails_in("failed", when)
            raise
        fails_in("after", when)
        return result

    return middleware


def raises(ctx: Context, payload: Any) -> None:
    seen.append("job")
    raise ValueError("the job's own")


async def raises_later(ctx: Context, payload: Any) -> None:
    raises(ctx, payload)


@pytest.mark.parametrize("made", [failing, failing_later])
@pytest.mark.parametrize(
    ("when", "phase", "calls"),
    [("before", "before the job", 0), ("after", "after the job", 1), ("failed", "on the failure of the job", 1)],
)
def test_a_failure_says_whose_it_is(when: str, phase: str, calls: int, made: Callable[[str], Middleware]) -> None:
    run = result_of(raises if when == "failed" else plain, [layer("a"), made(when), layer("b")])
    assert (run.state, run.error_type) == (RunState.DEAD, "Boom")
    assert run.error == f"middleware {HERE}.{made.__name__}.<locals>.middleware, {phase}: mine"
    assert seen.count("job") == calls


@pytest.mark.parametrize(
    ("function", "layers"),
    [(raises, [failing("never"), layer("b")]), (raises_later, [failing_later("never"), async_layer("b")])],
    ids=["plain", "async"],
)
def test_an_error_of_the_job_passes_as_its_own(
    function: Callable[[Context, Any], Any], layers: list[Middleware]
) -> None:
    run = result_of(function, layers)
    assert (run.error_type, run.error) == ("ValueError", "the job's own")
    assert seen == ["b(", "job", ")b"]


def test_an_error_that_is_swallowed_is_none() -> None:
    def calm(ctx: Context, payload: Any, call_next: CallNext) -> Any:
        try:
            return call_next(payload)
        except ValueError:
            return "calm"

    run = result_of(raises, [calm])
    assert (run.state, run.result) == (RunState.SUCCEEDED, "calm")


def test_the_retry_policy_sees_the_error_of_a_middleware() -> None:
    def refuses(ctx: Context, payload: Any, call_next: CallNext) -> Any:
        raise Permanent("never")

    world = World()
    world.jobs.job("j", middleware=[refuses], retry=Retry(max_attempts=5))(plain)
    run = world.scheduler.submit("j")
    world.work()
    ended = world.scheduler.get_run(run.id)
    assert (ended.state, ended.attempt, seen) == (RunState.DEAD, 1, [])


def test_a_second_call_is_refused() -> None:
    def twice(ctx: Context, payload: Any, call_next: CallNext) -> Any:
        call_next(payload)
        return call_next(payload)

    run = result_of(plain, [twice])
    assert (run.state, run.error_type, seen) == (RunState.DEAD, "JobError", ["job"])
    assert "twice, after the job: call_next was called a second time; call it once" in (run.error or "")


def test_a_middleware_that_does_not_call_the_job_is_the_job() -> None:
    run = result_of(plain, [lambda ctx, payload, call_next: "cached"])
    assert (run.state, run.result, seen) == (RunState.SUCCEEDED, "cached", [])


def test_a_claim_of_cancellation_is_checked_as_that_of_a_job() -> None:
    def claims(ctx: Context, payload: Any, call_next: CallNext) -> Any:
        raise RunCancelled

    assert "nobody has asked for the cancellation" in (result_of(plain, [claims]).error or "")


# Waits and slices.


def test_each_slice_of_a_run_goes_through_it() -> None:
    def waits(ctx: Context, payload: Any) -> str:
        ctx.step("first", lambda: seen.append("step"))
        ctx.sleep(60)
        seen.append("job")
        return "done"

    world = World()
    world.jobs.job("j", middleware=[layer("a")])(waits)
    run = world.scheduler.submit("j")
    world.work()
    assert world.scheduler.get_run(run.id).state is RunState.PARKED
    world.live(120)
    ended = world.scheduler.get_run(run.id)
    assert (ended.state, ended.attempt) == (RunState.SUCCEEDED, 1), ended.error
    assert seen == ["a(", "step", ")a", "a(", "job", ")a"]


def test_an_error_after_a_swallowed_one_is_its_own() -> None:
    def waits(ctx: Context, payload: Any) -> None:
        ctx.sleep(60)

    def calm(ctx: Context, payload: Any, call_next: CallNext) -> Any:
        try:
            return call_next(payload)
        except Boom:
            return "calm"

    def second_fails(ctx: Context, payload: Any, call_next: CallNext) -> Any:
        seen.append("slice")
        if len(seen) > 1:
            raise Boom("swallowed")
        return call_next(payload)

    world = World()
    world.jobs.job("j", middleware=[calm, second_fails], retry=ONCE)(waits)
    run = world.scheduler.submit("j")
    world.live(120)
    ended = world.scheduler.get_run(run.id)  # the second slice left out the wait of the first
    assert (ended.state, ended.error_type) == (RunState.DEAD, "Diverged")
    assert "middleware" not in (ended.error or "")


def test_the_end_of_a_slice_passes_through_it() -> None:
    def slices(ctx: Context, payload: Any) -> str:
        if ctx.resume is None:
            ctx.checkpoint(1)
            raise Continue
        return "done"

    world = World()
    world.jobs.job("j", middleware=[layer("a")])(slices)
    run = world.scheduler.submit("j")
    world.live(60)
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED
    assert seen == ["a(", ")a"] * 2


def test_each_run_of_a_batch_and_of_a_map_goes_through_it() -> None:
    def whole(ctx: Context, payload: Any) -> list[int]:
        return list(ctx.map("j", [1, 2]))

    world = World()
    world.jobs.job("j", middleware=[layer("a")])(plain)
    world.jobs.job("whole")(whole)
    world.scheduler.submit_all([Submission("j", number) for number in (1, 2, 3)])
    run = world.scheduler.submit("whole")
    world.live(120)
    assert world.scheduler.get_run(run.id).result == [1, 2]
    assert seen == ["a(", "job", ")a"] * 5


def test_none_is_around_a_job_of_the_scheduler_itself() -> None:
    world = World()
    world.jobs.middleware(layer("a"))
    world.scheduler.create_schedule("p", "pipeline:p", "manual", tasks={"t": {"job": "note"}})
    world.scheduler.trigger("p")
    world.live(120)
    assert {run.state for run in world.memory.runs()} == {RunState.SUCCEEDED}
    assert seen == ["a(", ")a"]  # of the task


# What is refused where it is declared.


def generator(ctx: Context, payload: Any, call_next: CallNext) -> Any:
    yield call_next(payload)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([generator], "is a generator; call call_next"),
        ([plain], "cannot be called with (ctx, payload, call_next): too many positional"),
        (["text"], "cannot be called"),
        (plain, "is no list"),
    ],
)
def test_what_is_no_middleware_is_refused(given: Any, problem: str) -> None:
    jobs = Registry()
    with pytest.raises(JobError, match=r"job='j': middleware") as caught:
        jobs.job("j", middleware=given)
    assert problem in str(caught.value)
    assert len(jobs) == 0


def test_a_module_that_is_imported_again_declares_the_same_middleware_again() -> None:
    def again() -> Middleware:
        def reloaded(ctx: Context, payload: Any, call_next: CallNext) -> Any:
            return call_next(payload)

        reloaded.__qualname__ = "reloaded"
        return reloaded

    other, one, two = layer("a"), again(), again()
    assert added(added(added((), one), other), two) == (two, other)
    assert added((other,), layer("a"))[0] is other
    assert len(added((other,), layer("a"))) == 2
