"""A worker process with isolated jobs: it beats while they cannot, and they do not outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from quarterjack import RunState, Scheduler
from quarterjack.daemon import worker_shell
from quarterjack.daemon.worker_process import WorkerProcess
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.times import SECOND
from quarterjack.services import system_clock
from quarterjack.testing import Memory

from tests.support.scenes.isolated_jobs import children, living, until
from tests.support.scenes.isolated_work import registry

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
from quarterjack.isolation import PreloadedParent
from tests.support.scenes.isolated_jobs import Stage
Stage(parent=PreloadedParent([sys.argv[2]])).run("wait", {"to": sys.argv[1], "how": "gil and fork"})
"""


@contextmanager
def working(memory: Memory, *, grace: float = 0) -> Iterator[WorkerProcess]:
    stop, process = threading.Event(), WorkerProcess(memory.connect(), registry, concurrency=2)
    thread = threading.Thread(target=process.run, kwargs={"stop": stop, "grace": grace})
    thread.start()
    try:
        yield process
    finally:
        stop.set()
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def memory() -> Memory:
    return Memory(system_clock, idle=lambda seconds: threading.Event().wait(0.05))


def test_it_beats_while_a_job_holds_its_interpreter(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_shell, "HEARTBEAT", SECOND // 20)
    scheduler = Scheduler("acme", jobs=registry, services=memory.connect())
    mark = tmp_path / "mark"
    with working(memory):
        run = scheduler.submit("wait", {"to": str(mark), "how": "gil"})
        in_thread = scheduler.submit("thread", None)
        ref = parse_run_id(run.id)
        assert until(mark.exists, 60)
        before = (memory.row(ref) or {})["lease_until"]
        assert until(lambda: (memory.row(ref) or {})["lease_until"] >= before + SECOND, 60)
        assert scheduler.wait_for(in_thread.id).result == os.getpid()
        group = int(mark.read_text())
        assert living(group)
    assert living(group) == [], "released with its worker"
    released = scheduler.get_run(run.id)
    assert (released.state, released.attempt, released.reason) == (RunState.RETRYING, 0, "released")


def test_it_starts_the_parent_of_isolated_jobs_ahead_of_them_and_leaves_no_process(memory: Memory) -> None:
    before = set(children(os.getpid()))
    with working(memory):
        assert until(lambda: len(set(children(os.getpid())) - before) == 1, 60)
    assert set(children(os.getpid())) == before


@pytest.mark.parametrize("preloaded", ["tests.support.scenes.isolated_work", "tests.support.scenes.isolated_elsewhere"])
def test_nothing_of_a_job_outlives_a_worker_that_is_killed(tmp_path: Path, preloaded: str) -> None:
    """Also where the kernel cannot be asked to kill it."""
    mark = tmp_path / "mark"
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'shared'}"}
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(mark), preloaded], env=environ) as worker:
        assert until(lambda: mark.exists() and mark.read_text().endswith("\n"), 60)
        group = int(mark.read_text())
        assert len(living(group)) == 2
        worker.send_signal(signal.SIGKILL)
    assert until(lambda: living(group) == [], 60)
