"""Threads are used again, and what they run does not meet."""

from __future__ import annotations

import os
import threading

import pytest
from quarterjack.concurrency import pools as module
from quarterjack.concurrency.pools import ThreadCache

PATIENCE = 10.0


def run(threads: ThreadCache, name: str = "one") -> threading.Thread:
    """The thread that ran it, when it has ended."""
    seen: list[threading.Thread] = []
    ended = threading.Event()

    def body() -> None:
        seen.append(threading.current_thread())
        assert threading.current_thread().name == name
        ended.set()

    threads.start(name, body)
    assert ended.wait(PATIENCE)
    return seen[0]


def idle(threads: ThreadCache, count: int) -> None:
    waiting = threading.Event()
    for _ in range(1_000):
        if len(threads._waiting) == count:
            return
        waiting.wait(PATIENCE / 1_000)
    raise AssertionError(f"{len(threads._waiting)} threads are idle")


def test_a_thread_that_has_ended_its_work_takes_the_next() -> None:
    threads = ThreadCache()
    first = run(threads, "one")
    idle(threads, 1)
    assert run(threads, "two") is first


def test_work_never_waits_for_other_work() -> None:
    threads, barrier = ThreadCache(), threading.Barrier(20)
    for number in range(20):
        threads.start(f"{number}", barrier.wait, PATIENCE)
    idle(threads, 20)


def test_an_idle_thread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = ThreadCache()
    monkeypatch.setattr(module, "IDLE", 0.01)
    thread = run(threads)
    thread.join(PATIENCE)
    monkeypatch.undo()
    assert not thread.is_alive()
    idle(threads, 0)
    assert run(threads, "another") is not thread


def test_work_that_raises_costs_its_thread_only() -> None:
    threads, hook = ThreadCache(), threading.excepthook
    raised = threading.Event()
    threading.excepthook = lambda args: raised.set()
    try:
        threads.start("raises", lambda: 1 / 0)
        assert raised.wait(PATIENCE)
    finally:
        threading.excepthook = hook
    run(threads)


def test_a_fork_has_threads_of_its_own() -> None:
    threads = ThreadCache()
    first = run(threads)
    idle(threads, 1)
    child = os.fork()
    if not child:  # the idle thread is not here
        os._exit(0 if run(threads) is not first else 1)
    assert os.waitpid(child, 0)[1] == 0
