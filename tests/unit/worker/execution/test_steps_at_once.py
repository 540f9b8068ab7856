"""One step from several threads or tasks of a job: one runs it, the others wait and get its result; nobody waits for ever."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from quarterjack import Context, Retry, Run, RunState
from quarterjack.domain.names import parse_run_id
from quarterjack.errors import InvalidInput, LeaseLost
from quarterjack.state.lease import lease

from tests.support.scenes.world import World

PATIENCE = 10.0  # seconds that a test waits for a thread
ONCE = Retry(max_attempts=1)


def run_of(world: World, job: Callable[[Context, Any], Any]) -> Run:
    """A run of a job that is worked off."""
    world.jobs.job("job", retry=ONCE)(job)
    run = world.scheduler.submit("job")
    world.work()
    return world.scheduler.get_run(run.id)


class Meeting:
    """A step's function that waits until others have come to the step, as far as that can be seen from outside."""

    def __init__(self) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        self.began.set()
        assert self.go_on.wait(PATIENCE)
        return self.calls


def waiting_at(ctx: Context, meeting: Meeting, others: int) -> list[Any]:
    """One thread runs the step, others come to it meanwhile; what each of them got (a result or an error)."""
    effects: Any = ctx.effects
    come = threading.Semaphore(0)
    original = effects._come_to

    def seen(name: str) -> Any:
        found = original(name)
        come.release()
        return found

    effects._come_to = seen
    with ThreadPoolExecutor(others + 1) as pool:
        threads = [pool.submit(ctx.step, "s", meeting)]
        assert meeting.began.wait(PATIENCE)
        threads += [pool.submit(ctx.step, "s", meeting) for _ in range(others)]
        for _ in range(others + 1):
            assert come.acquire(timeout=PATIENCE)
        meeting.go_on.set()
        return [thread.exception(PATIENCE) or thread.result() for thread in threads]


def test_threads_that_come_to_one_step_get_one_result() -> None:
    world, meeting = World(), Meeting()
    run = run_of(world, lambda ctx, payload: waiting_at(ctx, meeting, others=5))
    assert (run.state, run.result, run.steps, meeting.calls) == (RunState.SUCCEEDED, [1] * 6, {"s": 1}, 1)


def test_where_the_first_fails_the_next_one_tries() -> None:
    world = World()

    class Failing(Meeting):
        def __call__(self) -> int:
            if super().__call__() < 3:
                raise ConnectionError
            return self.calls

    meeting, got = Failing(), list[Any]()
    run_of(world, lambda ctx, payload: got.extend(waiting_at(ctx, meeting, others=4)))
    assert sum(isinstance(one, ConnectionError) for one in got) == 2
    assert [one for one in got if not isinstance(one, ConnectionError)] == [3, 3, 3]
    assert meeting.calls == 3


def test_those_who_waited_for_a_step_that_was_refused_are_refused_before_they_do_anything() -> None:
    world, got = World(), list[Any]()

    class Stolen(Meeting):
        def __call__(self) -> int:
            world.wait(75)
            taken = lease(revision=0, now=world.clock(), token="t", worker="other", max_attempts=3, steal=True)
            assert world.services.ledger.move(parse_run_id(self.run_id), taken).applied
            return super().__call__()

        run_id: str

    meeting = Stolen()

    def job(ctx: Context, payload: Any) -> None:
        meeting.run_id = ctx.run_id
        got.extend(waiting_at(ctx, meeting, others=3))

    world.jobs.job("job")(job)
    world.scheduler.submit("job")
    world.work()
    assert [type(one) for one in got] == [LeaseLost] * 4
    assert meeting.calls == 1


def test_tasks_that_come_to_one_step_get_one_result() -> None:
    world, calls = World(), []

    async def effect() -> int:
        calls.append(1)
        await asyncio.sleep(0)
        return len(calls)

    async def job(ctx: Context, payload: Any) -> list[int]:
        return list(await asyncio.gather(*(ctx.step("s", effect) for _ in range(5))))

    run = run_of(world, job)
    assert (run.state, run.result, calls) == (RunState.SUCCEEDED, [1] * 5, [1])


def test_a_task_that_is_cancelled_at_a_step_leaves_it_to_the_next() -> None:
    world, calls = World(), []

    async def effect() -> str:
        calls.append(1)
        await asyncio.sleep(0 if len(calls) > 1 else PATIENCE)
        return "done"

    async def job(ctx: Context, payload: Any) -> list[str]:
        tasks = [asyncio.ensure_future(ctx.step("s", effect)) for _ in range(4)]
        await asyncio.sleep(0)
        tasks[0].cancel()  # the one that is at it
        tasks[2].cancel()  # one that waits, which must not disturb who it waits for
        found = await asyncio.gather(*tasks, return_exceptions=True)
        return [type(one).__name__ if isinstance(one, BaseException) else one for one in found]

    run = run_of(world, job)
    assert run.result == ["CancelledError", "done", "CancelledError", "done"]
    assert len(calls) == 2


def within_itself(ctx: Context) -> Any:
    return ctx.step("s", lambda: ctx.step("s", int))


async def within_itself_async(ctx: Context) -> Any:
    async def inner() -> int:
        return 1

    async def outer() -> Any:
        return await asyncio.create_task(ctx.step("s", inner))

    return await ctx.step("s", outer)


async def by_a_thread_of_its_own(ctx: Context) -> Any:
    async def outer() -> Any:
        return await asyncio.to_thread(ctx.step, "s", int)

    return await ctx.step("s", outer)


async def plain_beside_a_task(ctx: Context) -> Any:
    """A plain call would hold the event loop up, and with it the task that it waits for."""
    reached = asyncio.Event()

    async def slow() -> int:
        reached.set()
        await asyncio.sleep(0)
        return 1

    task = asyncio.ensure_future(ctx.step("s", slow))
    await reached.wait()
    try:
        return ctx.step("s", int)
    finally:
        await task


@pytest.mark.parametrize(
    "how",
    [within_itself, within_itself_async, by_a_thread_of_its_own, plain_beside_a_task],
    ids=lambda how: how.__name__,
)
def test_a_step_that_would_wait_for_itself_is_refused(how: Callable[[Context], Any]) -> None:
    world, refused = World(), list[InvalidInput]()

    async def job(ctx: Context, payload: Any) -> None:
        try:
            done = how(ctx)
            await asyncio.wait_for(done, PATIENCE) if asyncio.iscoroutine(done) else None
        except InvalidInput as problem:
            refused.append(problem)

    assert run_of(world, job).state is RunState.SUCCEEDED
    assert "would wait for itself; give each step a name of its own" in str(*refused)


def test_a_step_may_contain_others() -> None:
    world = World()

    def outer(ctx: Context) -> list[str]:
        return [ctx.step(name, functools.partial(str.upper, name)) for name in ("a", "b")]

    run = run_of(world, lambda ctx, payload: ctx.step("outer", lambda: outer(ctx)))
    assert run.steps == {"outer": ["A", "B"], "a": "A", "b": "B"}
