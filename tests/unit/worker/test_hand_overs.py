"""A message is handed to another thread once before its job: from the poller to its batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from quarterjack.concurrency.pools import ThreadCache
from quarterjack.worker.delivery.receive import receive
from quarterjack.worker.execution.executor import ThreadedExecutor
from quarterjack.worker.pipeline import start_batches

from tests.support.scenes.world import World

PATIENCE = 10.0  # seconds that a test waits for a thread


@pytest.mark.parametrize("runs", [1, 5])
def test_the_first_job_runs_in_the_thread_of_its_batch(monkeypatch: pytest.MonkeyPatch, runs: int) -> None:
    names: dict[int, str] = {}  # of threads, by their ids
    start = ThreadCache.start

    def noted(threads: ThreadCache, body: Callable[[], object], name: str) -> None:
        def named() -> None:
            names[threading.get_ident()] = name
            body()

        start(threads, named, name)

    monkeypatch.setattr(ThreadCache, "start", noted)
    world, ran_in, over = World(), list[str](), threading.Semaphore(0)
    world.during = lambda ctx: ran_in.append(names[threading.get_ident()])
    for _ in range(runs):
        world.scheduler.submit("note")
    worker = replace(world.worker(), executor=ThreadedExecutor(), report=lambda done: over.release(len(done)))
    assert start_batches(worker, receive(worker, world.services.work.receive(most=10, wait=0, visibility=60)))
    assert all(over.acquire(timeout=PATIENCE) for _ in range(runs))
    assert "batch" in ran_in, "the thread to which the poller hands the batch, and no other"
