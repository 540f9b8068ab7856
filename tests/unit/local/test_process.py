"""Child processes: they say how they ended, log to a file, and are gone when asked to be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from quarterjack.local.processes import LocalProcess, inherited

TRAP = """
import signal, sys, threading
done = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: done.set())
print("ready", flush=True)
done.wait(20)
print("bye", flush=True)
sys.exit(3)
"""
RENEWED = (
    """
import os, sys
if "AGAIN" not in os.environ:
    os.environ["AGAIN"] = "1"
    os.execv(sys.executable, sys.orig_argv)
assert sys.stdin.read() == ""
"""
    + TRAP
)
DEAF = """
import signal, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
threading.Event().wait(20)
"""


def child(folder: Path, source: str) -> LocalProcess:
    (folder / "told.py").write_text(source)
    environ = {**inherited(), "PYTHONPATH": str(folder)}
    started = LocalProcess("told", "told", environ=environ, log=folder / "told.log")
    while "ready" not in started.log.read_text():
        assert started.wait(0.01) is None, started.log.read_text()
    return started


def test_it_ends_when_asked_and_says_how(tmp_path: Path) -> None:
    with child(tmp_path, TRAP) as running:
        assert running.wait(0) is None
        assert running.stop() == 3
    assert running.wait(0) == 3
    assert running.log.read_text().split() == ["ready", "bye"]


def test_one_that_does_not_listen_is_ended_after_the_grace(tmp_path: Path) -> None:
    assert child(tmp_path, DEAF).stop(grace=0.1) == -signal.SIGKILL


def test_killing_leaves_it_no_time(tmp_path: Path) -> None:
    running = child(tmp_path, TRAP)
    running.kill()
    assert running.exit_code == -signal.SIGKILL
    running.terminate()  # of one that is gone is nothing
    assert running.log.read_text().split() == ["ready"]


def test_a_ctrl_c_at_the_terminal_is_the_parents(tmp_path: Path) -> None:
    with child(tmp_path, TRAP) as running:
        assert os.getsid(running.pid) == running.pid


@pytest.mark.parametrize("source", [TRAP, RENEWED], ids=["plain", "after it replaced itself"])
def test_it_ends_in_good_order_when_its_parent_is_killed(tmp_path: Path, source: str) -> None:
    (tmp_path / "told.py").write_text(source)
    hold = f"""
import sys
from pathlib import Path
from quarterjack.local.processes import LocalProcess, inherited
running = LocalProcess("told", "told", environ=inherited(), log=Path({str(tmp_path / "told.log")!r}))
print(running.pid, flush=True)
sys.stdin.read()
"""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    log = tmp_path / "told.log"
    with subprocess.Popen([sys.executable, "-c", hold], env=environ, text=True, **pipes) as parent:  # type: ignore[call-overload]
        assert parent.stdout.readline()
        while not log.read_text():
            pass
        parent.kill()
    for _ in range(500):
        if log.read_text().split() == ["ready", "bye"]:
            return
        signal.sigtimedwait([], 0.02)
    pytest.fail(log.read_text())


def test_a_child_never_finds_the_way_to_a_real_account() -> None:
    mine = {"AWS_PROFILE": "production", "AWS_ACCESS_KEY_ID": "AKIA", "AWS_CA_BUNDLE": "/ca.pem", "PATH": "/bin"}
    assert inherited(mine) == {"AWS_CA_BUNDLE": "/ca.pem", "PATH": "/bin"}
