"""Calls of ``AsyncScheduler``: results, errors, cancellation, the end of its threads, forks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
import quarterjack
from quarterjack import AsyncScheduler, RunState, Scheduler
from quarterjack.errors import AlreadyExists, InvalidInput, NotFinished, NotFound
from quarterjack.testing import Detail, Hook

from tests.support.scenes.world import World

LONG = 30.0  # seconds until a test that waits in vain fails


class Gate(Hook):
    """Holds requests of one kind until it is opened."""

    def __init__(self, verb: str) -> None:
        self.verb, self.came, self.open, self.count = verb, threading.Event(), threading.Event(), 0

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        if detail.verb == self.verb:
            self.count += 1
            self.came.set()
            assert self.open.wait(LONG)
        return ()

    async def reached(self) -> None:
        assert await asyncio.to_thread(self.came.wait, LONG)


def gated(world: World, gate: Gate, **also: Any) -> AsyncScheduler:
    services = world.memory.connect(gate)
    return AsyncScheduler("acme", jobs=world.jobs, services=services, clock=world.clock, **also)


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def collect(source: AsyncIterator[Any], into: list[Any]) -> None:
    async for item in source:
        into.append(item)  # noqa: PERF401 (an error keeps what came before it)


def test_it_returns_and_raises_what_the_other_does() -> None:
    world = World()

    async def story() -> None:
        async with AsyncScheduler.of(world.scheduler) as scheduler:
            assert scheduler.tenant == "acme"
            made = await scheduler.create_schedule("s", "note", "0 * * * *", payload={"n": 1}, tags={"team": "a"})
            assert (made.name, made.tags) == ("s", {"team": "a"})
            assert await scheduler.get_schedule("s") == world.scheduler.get_schedule("s")
            assert (await scheduler.list_schedules()).items == world.scheduler.list_schedules().items
            assert await scheduler.preview("s", 3) == world.scheduler.preview("s", 3)
            with pytest.raises(AlreadyExists):
                await scheduler.create_schedule("s", "note", "0 * * * *")
            with pytest.raises(InvalidInput, match="catch_up"):
                await scheduler.update_schedule("s", catch_up="lates")  # type: ignore[arg-type]
            with pytest.raises(NotFound):
                await scheduler.get_run("acme/~nothing#once")
            runs = await asyncio.gather(*(scheduler.submit("note", n) for n in range(40)))
            assert len({run.id for run in runs}) == 40

    asyncio.run(story())


def test_a_copy_acts_as_somebody() -> None:
    world = World()

    async def story() -> None:
        async with AsyncScheduler.of(world.scheduler) as scheduler:
            await scheduler.acting_as("ada@acme", reason="she wants it").create_schedule("s", "note", "0 9 * * *")
            (line,) = (await scheduler.audit(act="create")).items
            assert (line.actor, line.reason) == ("app:ada@acme", "she wants it")

    asyncio.run(story())


def test_a_cancelled_await_does_not_undo_what_is_under_way_and_a_key_makes_it_once() -> None:
    world, gate = World(), Gate("submit")

    async def story() -> None:
        async with gated(world, gate) as scheduler:
            task = asyncio.create_task(scheduler.submit("note", 1, idempotency_key="order-17"))
            await gate.reached()
            await cancelled(task)
            assert world.memory.runs() == []
            gate.open.set()
            again = await scheduler.submit("note", 1, idempotency_key="order-17")
        assert [str(run.ref) for run in world.memory.runs()] == [again.id]

    asyncio.run(story())


def test_a_cancelled_call_that_waits_for_a_thread_is_dropped() -> None:
    world, gate = World(), Gate("submit")

    async def story() -> None:
        async with gated(world, gate, threads=1) as scheduler:
            first = asyncio.create_task(scheduler.submit("note", 1))
            await gate.reached()
            second = asyncio.create_task(scheduler.submit("note", 2))
            await asyncio.sleep(0)
            await cancelled(second)
            gate.open.set()
            await first
        assert [run.payload for run in world.memory.runs()] == ["1"]

    asyncio.run(story())


class Meter(Hook):
    """Counts the calls that submit at the same time."""

    def __init__(self, until: int) -> None:
        self._all, self.now, self.most = threading.Barrier(until), 0, 0
        self._lock = threading.Lock()

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        if detail.verb == "submit":
            with self._lock:
                self.now += 1
                self.most = max(self.most, self.now)
            self._all.wait(LONG)
        return ()

    def after_call(self, operation: str, detail: Detail) -> None:
        if detail.verb == "submit":
            with self._lock:
                self.now -= 1


def test_calls_have_so_many_threads_of_their_own_and_no_more() -> None:
    world, meter, busy = World(), Meter(3), threading.Event()
    services = world.memory.connect(meter)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        other = loop.run_in_executor(None, busy.wait, LONG)  # another library has taken the event loop's threads
        scheduler = AsyncScheduler("acme", jobs=world.jobs, services=services, clock=world.clock, threads=3)
        await asyncio.gather(*(scheduler.submit("note", n) for n in range(12)))
        busy.set()
        assert await other
        await scheduler.aclose()

    asyncio.run(story())
    assert (len(world.memory.runs()), meter.most) == (12, 3)


def test_at_the_end_of_the_block_calls_under_way_have_ended() -> None:
    world, gate = World(), Gate("submit")

    async def story() -> AsyncScheduler:
        async with gated(world, gate) as scheduler:
            task = asyncio.create_task(scheduler.submit("note", 1))
            await gate.reached()
            await cancelled(task)
            asyncio.get_running_loop().call_soon(gate.open.set)
        assert len(world.memory.runs()) == 1
        for late in (scheduler, scheduler.acting_as("ada")):
            with pytest.raises(RuntimeError, match="closed: make another one"):
                await late.submit("note", 2)
        await scheduler.aclose()
        return scheduler

    asyncio.run(story())


def test_a_cancelled_bulk_call_ends_after_the_writes_under_way() -> None:
    world, gate = World(), Gate("change")
    for number in range(40):
        world.scheduler.create_schedule(f"s{number:02}", "note", "0 9 * * *")
    verbs = list[str]()

    class Seen(Gate):
        def before_call(self, operation: str, detail: Detail) -> Collection[int]:
            verbs.append(detail.verb)
            if operation == "TransactWriteItems":
                gate.before_call(operation, Detail(place="", verb="change"))
            return ()

    async def story() -> None:
        async with gated(world, Seen("change")) as scheduler:
            task = asyncio.create_task(scheduler.bulk("pause", prefix="s", rate=1_000))
            await gate.reached()
            await cancelled(task)
            gate.open.set()

    asyncio.run(story())
    paused = [head for head in world.memory.heads() if head.state == "PAUSED"]
    assert 0 < len(paused) <= 16, "eight at a time, and those that were already waiting for a thread"


def test_a_stop_of_ones_own_is_left_alone() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "0 9 * * *")
    stop = threading.Event()
    stop.set()

    async def story() -> None:
        async with AsyncScheduler.of(world.scheduler) as scheduler:
            result = await scheduler.bulk("pause", prefix="s", stop=stop)
            assert (result.count, result.cursor is None) == (0, False)
            assert (await scheduler.bulk("pause", prefix="s")).count == 1

    asyncio.run(story())


def test_a_call_sees_the_context_variables_of_its_task() -> None:
    user = ContextVar("user", default="nobody")
    seen = list[str]()

    class Owner(Scheduler):
        def get_run(self, run_id: str) -> Any:
            seen.append(f"{run_id}: {user.get()}")

    world = World()
    owner = Owner("acme", jobs=world.jobs, services=world.services, clock=world.clock)

    async def as_user(name: str) -> None:
        user.set(name)
        await scheduler.get_run("r")

    async def story() -> None:
        await asyncio.gather(as_user("ada"), as_user("grace"))

    scheduler = AsyncScheduler.of(owner)
    asyncio.run(story())
    assert sorted(seen) == ["r: ada", "r: grace"], "a method of a class derived from Scheduler is called, too"


def test_to_wait_for_a_run_takes_no_thread() -> None:
    world = World()

    async def story() -> None:
        async with AsyncScheduler.of(world.scheduler, threads=1) as scheduler:
            run = await scheduler.submit("note", 1)
            waiting = [asyncio.create_task(scheduler.wait_for(run.id)) for _ in range(5)]
            endless = asyncio.create_task(scheduler.wait_for(run.id, timeout=86_400))
            await scheduler.cancel_run(run.id)
            ended = await asyncio.gather(*waiting, endless)
            assert {one.state for one in ended} == {RunState.CANCELLED}
            other = await scheduler.submit("note", 2)
            with pytest.raises(NotFinished, match="still QUEUED"):
                await scheduler.wait_for(other.id, timeout=0.001)
            with pytest.raises(InvalidInput, match="timeout"):
                await scheduler.wait_for(other.id, timeout=0)
            endless = asyncio.create_task(scheduler.wait_for(other.id, timeout=86_400))
            await asyncio.sleep(0)
            await cancelled(endless)

    asyncio.run(story())


def test_what_is_iterated_comes_in_order_whole_and_with_its_errors() -> None:
    class Owner(Scheduler):
        def archive(self, *, since: Any, **_: Any) -> Iterator[Any]:
            if since is None:
                raise InvalidInput("since", since, "is missing", "give a time")
            return self.some(int(since))

        def some(self, count: int) -> Iterator[Any]:
            yield from range(count)
            raise NotFound("the rest")

    world = World()
    scheduler = AsyncScheduler.of(Owner("acme", services=world.services, clock=world.clock))

    async def story() -> None:
        for count in (0, 1, 1_234):
            seen = list[Any]()
            with pytest.raises(NotFound, match="the rest"):
                await collect(scheduler.archive(since=count), seen)  # type: ignore[arg-type]
            assert seen == list(range(count)), "also those that came before the error"
        with pytest.raises(InvalidInput, match="since"):
            await anext(scheduler.archive(since=None))  # type: ignore[arg-type]

    asyncio.run(story())


FORK = """
import asyncio, os, signal
from datetime import UTC, datetime
from quarterjack import AsyncScheduler, Registry
from quarterjack.testing import Harness
jobs = Registry()
jobs.job("note")(lambda ctx, payload: None)
scheduler = AsyncScheduler.of(Harness(jobs, at=datetime(2026, 5, 4, tzinfo=UTC)).scheduler)
asyncio.run(scheduler.submit("note", 1))
for _ in range(3):
    child = os.fork()
    if not child:
        signal.alarm(60)  # ends a child that waits for ever
        try:
            assert asyncio.run(scheduler.submit("note", 2)).state == "QUEUED"
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
asyncio.run(scheduler.submit("note", 3))
"""


def test_a_forked_child_makes_its_own_threads() -> None:
    place = str(Path(str(quarterjack.__file__)).parents[1])
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": place}, timeout=120)
    assert done.returncode == 0, done.stderr
