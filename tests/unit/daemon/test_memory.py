"""The memory of a worker: few arenas for its threads, and a limit beyond which it makes way for another process."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from quarterjack import Registry, RunState, Scheduler
from quarterjack.daemon import memory, roles
from quarterjack.daemon.worker_process import WorkerProcess
from quarterjack.errors import InvalidInput, Unavailable
from quarterjack.services import system_clock
from quarterjack.settings import Settings
from quarterjack.testing import Memory

GLIBC = platform.libc_ver()[0] == "glibc"
WORKER = "quarterjack.daemon.worker_process"
ARENAS = """
import ctypes, os, sys, threading
from quarterjack.daemon.memory import limit_arenas
if sys.argv[1] == "limited":
    limit_arenas()
all_there, libc = threading.Barrier(8), ctypes.CDLL(None)
def work():
    blocks = [bytearray(10_000) for _ in range(100)]
    all_there.wait()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
"""


def arenas(how: str, **environ: str) -> int:
    """How many arenas a fresh process has after eight threads have allocated."""
    kept = {name: value for name, value in os.environ.items() if name not in memory._CHOSEN}
    done = subprocess.run(
        [sys.executable, "-c", ARENAS, how], env={**kept, **environ}, capture_output=True, text=True, check=True
    )
    return done.stdout.count("<heap nr=")


@pytest.mark.skipif(not GLIBC, reason="arenas are glibc's")
def test_threads_share_two_arenas_unless_the_operator_says_otherwise() -> None:
    assert arenas("free") > 2
    assert arenas("limited") == 2
    assert arenas("limited", MALLOC_ARENA_MAX="4") == 4


@pytest.mark.parametrize(
    "begin",
    [
        lambda: roles.worker_process(Settings(), Registry()),
        lambda: roles.run_ticker(Settings(), stop=threading.Event()),
    ],
)
def test_the_collector_leaves_out_what_a_worker_and_a_ticker_have_imported(
    begin: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out: list[bool] = []

    def connect(settings: Settings) -> None:
        left_out.append(gc.get_freeze_count() > 0)
        raise Unavailable("enough seen")

    monkeypatch.setattr(roles, "connect", connect)
    gc.unfreeze()
    try:
        with pytest.raises(Unavailable):
            begin()
    finally:
        gc.unfreeze()
    assert left_out == [True]


def test_a_worker_limits_them_before_it_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def connect(settings: Settings) -> None:
        calls.append("connected")
        raise Unavailable("enough seen")

    monkeypatch.setattr(roles, "limit_arenas", lambda: calls.append("limited"))
    monkeypatch.setattr(roles, "connect", connect)
    with pytest.raises(Unavailable):
        roles.worker_process(Settings(), Registry())
    assert calls == ["limited", "connected"]


def test_a_worker_that_holds_too_much_finishes_and_makes_way(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud, jobs, full, stop = Memory(system_clock), Registry(), threading.Event(), threading.Event()

    @jobs.job("grow")
    def grow(ctx: object, payload: object) -> None:
        full.set()
        stop.wait(20)  # it is told to end while this runs

    Scheduler("acme", jobs=jobs, services=cloud.connect()).submit("grow")
    monkeypatch.setattr(f"{WORKER}._WATCH", 0.01)
    for place in (WORKER, "quarterjack.daemon.memory"):  # whatever the tests before this one have left in this process
        monkeypatch.setattr(f"{place}.resident", lambda: 901.0 if full.is_set() else 100.0)
    process = WorkerProcess(cloud.connect(), jobs, max_memory=900)
    assert process.run(stop=stop, grace=20), "another process is to be started"
    assert [run.state for run in cloud.runs()] == [RunState.SUCCEEDED]


def test_one_that_is_stopped_meanwhile_does_not_start_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()

    def stopped() -> float:
        stop.set()
        return 901.0

    monkeypatch.setattr("quarterjack.daemon.memory.resident", lambda: 100.0)
    process = WorkerProcess(Memory(system_clock).connect(), Registry(), max_memory=900)
    monkeypatch.setattr(f"{WORKER}._WATCH", 0.01)
    monkeypatch.setattr(f"{WORKER}.resident", stopped)
    assert not process.run(stop=stop, grace=1)


@pytest.mark.parametrize(("held", "said"), [(80.0, "give at least 160"), (None, "leave it out")])
def test_a_limit_that_cannot_hold_is_refused(held: float | None, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "resident", lambda: held)
    with pytest.raises(InvalidInput, match=rf"max_memory=64: .*{said}"):
        WorkerProcess(Memory(system_clock).connect(), Registry(), max_memory=64)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="read from /proc")
def test_resident_memory_is_in_megabytes() -> None:
    """In a process of its own: in one that has run other tests, what they leave is freed meanwhile."""
    code = """
from quarterjack.daemon import memory
held = memory.resident()
block = b"x" * (64 * memory.MB)
print(memory.resident() - held)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 60 < float(done.stdout) < 80
