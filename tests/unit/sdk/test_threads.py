"""Threads that share one ``Scheduler``: in memory, on the local cloud from their first request on, and beside the harness."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from quarterjack import AsyncScheduler, Registry, Scheduler, Settings
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.processes import variables
from quarterjack.testing import Harness

from tests.support.scenes.world import START, World

_T = TypeVar("_T")
THREADS = 24
LARGE = "x" * 70_000  # lies in the bucket


@pytest.fixture(autouse=True)
def _often() -> Iterator[None]:
    """The interpreter goes from one thread to another a hundred times as often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 100)
    yield
    sys.setswitchinterval(before)


def at_once(call: Callable[[int], _T], threads: int = THREADS) -> list[_T]:
    """What the calls return; all begin together."""
    begin = threading.Barrier(threads)

    def one(number: int) -> _T:
        begin.wait(30)
        return call(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, range(threads)))


def submit(owner: Scheduler) -> None:
    """Distinct keys make a run each, equal ones make one run in all; without a key each call makes one."""
    distinct = at_once(lambda n: [owner.submit("note", {"n": n, "i": i}, idempotency_key=f"{n}-{i}") for i in range(4)])
    assert len({run.id for runs in distinct for run in runs}) == THREADS * 4
    assert [[owner.get_run(run.id).payload for run in runs] for runs in distinct] == [
        [{"n": n, "i": i} for i in range(4)] for n in range(THREADS)
    ]
    equal = at_once(lambda n: owner.submit("note", {"text": LARGE}, idempotency_key="once"))
    assert len({run.id for run in equal}) == 1
    assert len({run.id for run in at_once(lambda n: owner.submit("note"))}) == THREADS


def create(owner: Scheduler) -> None:
    """Of schedules likewise, by their client tokens."""
    names = at_once(lambda n: owner.create_schedule(f"s{n}", "note", "0 9 * * *", client_token=f"t{n}").name)
    assert names == [f"s{n}" for n in range(THREADS)]
    one = at_once(lambda n: owner.create_schedule("one", "note", "0 9 * * *", client_token="same"))
    assert len({(made.name, made.revision) for made in one}) == 1
    assert len(owner.list_schedules().items) == THREADS + 1


def test_threads_share_one_scheduler() -> None:
    world = World()
    submit(world.scheduler)
    create(world.scheduler)
    assert len(world.memory.runs()) == THREADS * 5 + 1


@pytest.mark.cloud
def test_threads_share_one_scheduler_on_the_local_cloud_from_the_first_request_on(local_settings: Settings) -> None:
    """Credentials, connections, the bucket's client and the caller's identity are found by all of them at once."""
    jobs = Registry()
    jobs.job("note")(lambda ctx, payload: None)
    owner = Scheduler("acme", settings=local_settings, jobs=jobs)
    large = at_once(lambda n: owner.submit("note", {"n": n, "text": LARGE}, idempotency_key=f"large-{n % 6}-{n // 6}"))
    assert len({run.id for run in large}) == THREADS
    create(owner)
    submit(owner)
    identities = {line.identity or line.actor for line in owner.audit(act="create", limit=1_000).items}
    assert len(identities) == 1, "of this process, in the line of every thread"


FORKS = """
import os, signal, sys, threading, traceback
from quarterjack import Scheduler
owner = Scheduler("acme")
large = "x" * 70_000
owner.submit("note", {"of": "parent", "text": large})
stop = threading.Event()

def go_on():
    while not stop.is_set():
        owner.submit("note", {"of": "parent"})

threads = [threading.Thread(target=go_on) for _ in range(2)]
for thread in threads:
    thread.start()
for number in range(3):
    child = os.fork()
    if not child:
        signal.alarm(60)  # ends a child that waits for ever
        try:
            owner.create_schedule(f"s{number}", "note", "0 9 * * *", client_token=f"t{number}")
            run = owner.submit("note", {"of": number, "text": large})
            os._exit(0 if owner.get_run(run.id).payload["of"] == number else 1)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(2)
    status = os.waitpid(child, 0)[1]
    if status:
        stop.set()
        sys.exit(f"child {number} failed or waited for ever: {status}")
stop.set()
for thread in threads:
    thread.join()
print(len(owner.list_schedules().items))
"""


@pytest.mark.cloud
def test_forked_children_use_the_scheduler_of_their_parent(local_cloud: LocalCloud, local_settings: Settings) -> None:
    environ = {
        **os.environ,
        **local_cloud.environment,
        **variables(local_settings),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ, timeout=120)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


def test_threads_share_the_harness_while_it_works() -> None:
    jobs, seen, lock = Registry(), list[int](), threading.Lock()

    @jobs.job("note")
    def note(ctx: object, payload: int) -> None:
        with lock:
            seen.append(payload)

    harness = Harness(jobs, at=START)
    with ThreadPoolExecutor(THREADS) as pool:
        submitted = [pool.submit(harness.scheduler.submit, "note", n) for n in range(60)]
        while not all(one.done() for one in submitted):
            harness.advance()
    harness.advance()
    assert sorted(seen) == list(range(60))
    assert {run.state for run in harness.runs()} == {"SUCCEEDED"}


def test_threads_with_event_loops_of_their_own_share_one() -> None:
    world = World()
    scheduler = AsyncScheduler.of(world.scheduler, threads=4)

    async def some(thread: int) -> list[str]:
        made = await asyncio.gather(*(scheduler.submit("note", n, idempotency_key=f"{thread}-{n}") for n in range(10)))
        return [run.id for run in made]

    found = at_once(lambda n: asyncio.run(some(n)), 8)
    asyncio.run(scheduler.aclose())
    assert len({run for runs in found for run in runs}) == len(world.memory.runs()) == 80
