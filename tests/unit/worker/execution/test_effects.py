"""What a job leaves beside its run: steps once, the last checkpoint, progress; nothing by a worker that lost the run."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest
from quarterjack import Context, Retry, Run, RunState
from quarterjack.domain.message import INLINE_PAYLOAD
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.payload import LARGEST_RESULT
from quarterjack.errors import Continue, InvalidInput, JobError, LeaseLost, Unavailable
from quarterjack.state.lease import lease
from quarterjack.worker.delivery.visibility import Heartbeat

from tests.support.scenes.world import Faults, World, fails

SOON = Retry(max_attempts=4, base=1.0, jitter=0.0, backoff="fixed")  # a word, as users write it


def ended(world: World, run: Run) -> Run:
    world.live(30)
    return world.scheduler.get_run(run.id)


# Steps.


def test_a_recorded_step_never_runs_again() -> None:
    world, effects = World(), []

    @world.jobs.job("charge", retry=SOON)
    def charge(ctx: Context, payload: Any) -> list[Any]:
        def effect(name: str) -> dict[str, int]:
            effects.append((name, ctx.attempt))
            return {"in attempt": ctx.attempt}

        first = ctx.step("first", lambda: effect("first"))
        if ctx.attempt == 1:
            raise ConnectionError
        second = ctx.step("second", lambda: effect("second"))
        if ctx.attempt == 2:
            raise ConnectionError
        return [first, second]

    run = ended(world, world.scheduler.submit("charge"))
    assert (run.state, run.attempt) == (RunState.SUCCEEDED, 3)
    assert effects == [("first", 1), ("second", 2)]
    assert run.result == [{"in attempt": 1}, {"in attempt": 2}]
    assert run.steps == {"first": {"in attempt": 1}, "second": {"in attempt": 2}}


def test_a_step_gives_in_the_first_attempt_what_it_gives_in_the_next() -> None:
    world, seen = World(), []

    @world.jobs.job("pair", retry=SOON)
    def pair(ctx: Context, payload: Any) -> None:
        seen.append(ctx.step("pair", lambda: ({1: None}, "x")))
        if ctx.attempt == 1:
            raise ConnectionError

    ended(world, world.scheduler.submit("pair"))
    assert seen == [[{"1": None}, "x"]] * 2, "as JSON gives it back, both times"


def test_a_step_that_gave_nothing_is_recorded_too() -> None:
    world, count = World(), []

    @world.jobs.job("quiet", retry=SOON)
    def quiet(ctx: Context, payload: Any) -> None:
        assert ctx.step("none", lambda: count.append(1)) is None
        assert ctx.step("none", lambda: count.append(1)) is None
        if ctx.attempt == 1:
            raise ConnectionError

    assert ended(world, world.scheduler.submit("quiet")).state is RunState.SUCCEEDED
    assert count == [1]


def test_a_step_that_fails_is_not_recorded() -> None:
    world, tries = World(), []

    @world.jobs.job("shaky", retry=SOON)
    def shaky(ctx: Context, payload: Any) -> Any:
        def effect() -> str:
            tries.append(ctx.attempt)
            if ctx.attempt < 3:
                raise TimeoutError
            return "done"

        return ctx.step("shaky", effect)

    run = ended(world, world.scheduler.submit("shaky"))
    assert (run.result, tries) == ("done", [1, 2, 3])


def test_async_steps_are_awaited() -> None:
    world, effects = World(), []

    async def effect(name: str) -> str:
        await asyncio.sleep(0)
        effects.append(name)
        return name.upper()

    @world.jobs.job("async", retry=SOON)
    async def run_async(ctx: Context, payload: Any) -> list[str]:
        done = [await ctx.step(name, functools.partial(effect, name)) for name in ("a", "b")]
        if ctx.attempt == 1:
            raise ConnectionError
        return done

    run = ended(world, world.scheduler.submit("async"))
    assert (run.result, effects) == (["A", "B"], ["a", "b"])


def test_a_function_that_gives_a_coroutine_is_refused_with_the_remedy() -> None:
    """Whether to await could not be known in a later attempt, in which it is not called."""
    world = World()

    async def effect() -> None: ...

    @world.jobs.job("lambda", retry=Retry(max_attempts=1))
    async def run_async(ctx: Context, payload: Any) -> None:
        await ctx.step("s", lambda: effect())  # noqa: PLW0108 (that is the mistake)

    run = ended(world, world.scheduler.submit("lambda"))
    assert run.error == "step='s': gave something to await; pass the async function itself, or functools.partial of it"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (object(), "is not JSON"),
        (float("nan"), "is not JSON"),
        ("x" * INLINE_PAYLOAD, "has 65,538 bytes of JSON; keep it within 65,536"),
    ],
)
def test_a_step_result_that_cannot_be_kept_fails_the_attempt(value: object, problem: str) -> None:
    world = World()

    @world.jobs.job("bad-step", retry=Retry(max_attempts=1))
    def bad_step(ctx: Context, payload: Any) -> None:
        ctx.step("s", lambda: value)

    run = ended(world, world.scheduler.submit("bad-step"))
    assert (run.state, run.error_type, run.steps) == (RunState.DEAD, "InvalidInput", {})
    assert problem in run.failed_attempts[0].error


def test_a_step_needs_a_name() -> None:
    world = World()
    world.jobs.job("nameless", retry=Retry(max_attempts=1))(lambda ctx, payload: ctx.step("a b", int))
    assert ended(world, world.scheduler.submit("nameless")).error_type == "InvalidInput"


def test_a_step_whose_answer_was_lost_is_looked_up_before_it_is_tried_again() -> None:
    world, effects = World(), []
    faults = Faults().at("keep step", after=fails, times=2)  # both tries of one request take effect unheard

    @world.jobs.job("again")
    def again(ctx: Context, payload: Any) -> Any:
        with pytest.raises(Unavailable):
            ctx.step("s", lambda: effects.append(1))
        return ctx.step("s", lambda: effects.append(2))

    run = world.scheduler.submit("again")
    world.work(world.worker(faults))
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED
    assert effects == [1]


# A worker that lost the run.


def test_a_stale_step_is_refused_and_nothing_is_deleted() -> None:
    """The first worker stalls in a step for longer than its lease; the second does the whole run meanwhile."""
    world, told = World(), []

    @world.jobs.job("slow", delivery="exactly_once")
    def slow(ctx: Context, payload: Any) -> Any:
        def effect() -> str:
            if ctx.attempt == 1:
                world.wait(75)
                world.work(world.worker(name="second"))
            return f"attempt {ctx.attempt}"

        try:
            return ctx.step("effect", effect)
        except LeaseLost as problem:
            told.append(str(problem))
            with pytest.raises(LeaseLost):
                ctx.checkpoint("stale")
            with pytest.raises(LeaseLost):
                ctx.step("next", int)
            raise

    run = world.scheduler.submit("slow", delivery="exactly_once")
    outcomes = world.work(world.worker(name="first"))
    assert [outcome.action for outcome in outcomes] == ["lost"]
    assert len(told) == 1
    assert "was not recorded; stop" in told[0]
    run = world.scheduler.get_run(run.id)
    assert (run.state, run.attempt, run.fence, run.result) == (RunState.SUCCEEDED, 2, 2, "attempt 2")
    assert run.steps == {"effect": "attempt 2"}


@pytest.mark.parametrize("end", ["returns", "raises", "continues"])
def test_a_stale_end_settles_nothing_and_leaves_the_message_to_who_has_the_run(end: str) -> None:
    world = World()

    @world.jobs.job("slow")
    def slow(ctx: Context, payload: Any) -> str:
        if ctx.attempt == 1:
            world.wait(75)
            taken = lease(revision=0, now=world.clock(), token="t", worker="other", max_attempts=3, steal=True)
            assert world.services.ledger.move(parse_run_id(ctx.run_id), taken).applied
            if end == "raises":
                raise ConnectionError("comes too late")
            if end == "continues":
                raise Continue
        return f"attempt {ctx.attempt}"

    run = world.scheduler.submit("slow")
    outcomes = world.work()
    assert [(outcome.action, outcome.gone) for outcome in outcomes] == [("lost", False), ("waiting", False)]
    held = world.scheduler.get_run(run.id)
    assert (held.state, held.fence, held.failed_attempts) == (RunState.RUNNING, 2, [])
    assert len(world.memory.work) == 1
    world.live(75)  # the other never comes back either
    run = world.scheduler.get_run(run.id)
    assert (run.state, run.attempt, run.result) == (RunState.SUCCEEDED, 3, "attempt 3")
    assert len(world.memory.work) == 0


def test_a_thread_that_was_left_behind_has_no_effects_any_more() -> None:
    """After its timeout was settled, a job's thread that goes on finds its fence gone before its next step does anything."""
    world, contexts, effects = World(), [], []
    world.jobs.job("left")(lambda ctx, payload: contexts.append(ctx))
    world.scheduler.submit("left")
    world.work()
    with pytest.raises(LeaseLost):
        contexts[0].step("late", lambda: effects.append(1))
    with pytest.raises(LeaseLost):
        contexts[0].raise_if_cancelled()
    assert effects == []


# Checkpoints and progress.


@pytest.mark.parametrize("size", [0, 70_000])
def test_the_next_attempt_resumes_from_the_last_checkpoint(size: int) -> None:
    """Small in the ledger, large in the bucket by reference."""
    world, seen = World(), []

    @world.jobs.job("long", retry=SOON)
    def long(ctx: Context, payload: Any) -> Any:
        seen.append(None if ctx.resume is None else ctx.resume["page"])
        for page in range(seen[-1] or 0, 4):
            ctx.checkpoint({"page": page + 1, "rest": "x" * size})
            assert ctx.resume["page"] == page + 1
            if page % 2:
                raise ConnectionError
        return ctx.resume["page"]

    run = ended(world, world.scheduler.submit("long"))
    assert (run.state, run.attempt, run.result) == (RunState.SUCCEEDED, 3, 4)
    assert seen == [None, 2, 4]


@pytest.mark.parametrize(
    ("state", "problem"),
    [({1, 2}, "is not JSON"), ("x" * LARGEST_RESULT, "has 5,242,882 bytes of JSON; keep it within 5,242,880")],
)
def test_a_checkpoint_that_cannot_be_kept_is_refused_and_the_last_one_stays(state: Any, problem: str) -> None:
    world = World()

    @world.jobs.job("careless", retry=Retry(max_attempts=1))
    def careless(ctx: Context, payload: Any) -> Any:
        ctx.checkpoint("good")
        with pytest.raises(InvalidInput, match=problem):
            ctx.checkpoint(state)
        return ctx.resume

    assert ended(world, world.scheduler.submit("careless")).result == "good"


def test_progress_is_written_by_the_heartbeat() -> None:
    world, worker = World(), None
    seen: list[tuple[float | None, str | None]] = []

    @world.jobs.job("far")
    def far(ctx: Context, payload: Any) -> None:
        ctx.progress(1 / 3, "a third")
        seen.append(look())
        beat(worker.heartbeat if worker else None)
        seen.append(look())

    def look() -> tuple[float | None, str | None]:
        found = world.scheduler.get_run(run.id)
        return found.progress, found.stage

    def beat(heartbeat: Heartbeat | None) -> None:
        assert heartbeat is not None
        heartbeat.beat(world.clock())

    run, worker = world.scheduler.submit("far"), world.worker()
    world.work(worker)
    assert seen == [(None, None), (0.333, "a third")]


@pytest.mark.parametrize(
    "given", [(1.01, None), (-0.1, None), (True, None), ("half", None), (0.5, "x" * 101), (0.5, 1)]
)
def test_progress_that_is_none_is_refused(given: tuple[Any, Any]) -> None:
    world = World()
    world.jobs.job("odd", retry=Retry(max_attempts=1))(lambda ctx, payload: ctx.progress(*given))
    assert ended(world, world.scheduler.submit("odd")).error_type == "InvalidInput"


def test_what_lies_beside_a_run_costs_one_transaction_each_and_reading_it_one_query() -> None:
    world, faults = World(), Faults()

    @world.jobs.job("counted")
    def counted(ctx: Context, payload: Any) -> None:
        assert ctx.resume is None
        ctx.step("a", int)
        ctx.step("b", int)
        ctx.checkpoint(1)

    world.scheduler.submit("counted")
    world.work(world.worker(faults))
    assert faults.count("TransactWriteItems") == 3
    assert faults.verbs().count("beside") == 1
    assert [verb for verb in faults.verbs() if verb in ("lease", "succeed")] == ["lease", "succeed"]


def test_a_generator_is_refused_as_a_job() -> None:
    """Calling it would run none of its code, and the run would count as succeeded."""

    def generator(ctx: Context, payload: Any) -> Any:
        yield 1

    async def async_generator(ctx: Context, payload: Any) -> Any:
        yield 1

    for function in (generator, async_generator):
        with pytest.raises(JobError, match="is a generator"):
            World().jobs.job("g")(function)
