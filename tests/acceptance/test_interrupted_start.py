"""Ctrl-C during the start of a command: no traceback, no process and no file stays, and the exit code is a shell's for it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from quarterjack.cli.exits import ExitCode

from tests.support.installation.interrupted import WORD
from tests.support.installation.local_command import command, processes_of, read_until

pytestmark = [pytest.mark.check, pytest.mark.cloud]
SCRIPT = "-m tests.support.installation.interrupted"
NOBODY = ("--endpoint", "http://127.0.0.1:9")  # the worker has not asked it yet
WORKER = (*NOBODY, "worker", "--jobs", "quarterjack.local.session.demo_jobs", "--queue", "reports")


def interrupted(running: subprocess.Popen[str], after: str, number: signal.Signals = signal.SIGINT) -> str:
    """Signal the whole process group, as a terminal does, once ``after`` is printed; what is printed from then on."""
    read_until(running, after, 60)
    os.killpg(running.pid, number)
    return running.communicate(timeout=60)[0]


@pytest.mark.parametrize(
    "moment",
    [
        "typer",
        "quarterjack.local.session.session",
        "cloud",
        "cloud answers",
        "queues of jobs",
        "tables",
        "processes",
        "workers",
        "examples",
    ],
)
def test_of_everything(moment: str, tmp_path: Path) -> None:
    with command(tmp_path, moment, "local", at=SCRIPT) as running:
        said = interrupted(running, WORD)
        assert (running.returncode, said) == (ExitCode.INTERRUPTED, "")
        assert processes_of(tmp_path) == []
        assert list(tmp_path.iterdir()) == []


def test_of_everything_when_it_has_said_where_it_is(tmp_path: Path) -> None:
    with command(tmp_path, "local") as running:
        said = interrupted(running, "export AWS_ENDPOINT_URL")
        assert (running.returncode, said.strip()) == (ExitCode.INTERRUPTED, "")
        assert processes_of(tmp_path) == []


@pytest.mark.parametrize("moment", ["typer", "quarterjack.daemon.roles", "jobs", "queue"])
def test_of_a_worker(moment: str, tmp_path: Path) -> None:
    with command(tmp_path, moment, *WORKER, at=SCRIPT) as running:
        said = interrupted(running, WORD)
        assert (running.returncode, said) == (ExitCode.INTERRUPTED, "")


def test_twice_is_as_good_as_once(tmp_path: Path) -> None:
    with command(tmp_path, "workers", "local", at=SCRIPT) as running:
        read_until(running, WORD, 60)
        for _ in range(2):
            os.killpg(running.pid, signal.SIGINT)
        said = running.communicate(timeout=60)[0]
        assert (running.returncode, said) == (ExitCode.INTERRUPTED, "")
