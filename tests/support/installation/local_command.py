"""``quarterjack local`` in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def local(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command running, its output in a pipe; it is ended with the block."""
    with command(folder, "local", *arguments) as running:
        yield running


@contextmanager
def command(folder: Path, *arguments: str, at: str = "-m quarterjack") -> Iterator[subprocess.Popen[str]]:
    """Any command running in a process group of its own. ``at`` is how Python is started."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "QUARTERJACK_"))}
    environ |= {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
    environ["AWS_REGION"] = "us-east-1"
    line = [sys.executable, *at.split(), *arguments]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(line, env=environ, start_new_session=True, **pipes) as running:
        try:
            yield running
        finally:
            running.kill()


def read_until(running: subprocess.Popen[str], text: str, seconds: float) -> str:
    """The output up to a line with ``text``."""
    assert running.stdout is not None
    seen, deadline = "", time.monotonic() + seconds
    for line in running.stdout:
        seen += line
        if text in line:
            return seen
        assert time.monotonic() < deadline, seen
    raise AssertionError(f"it ended without {text!r}:\n{seen}")


def processes_of(folder: Path) -> list[str]:
    """Command lines of all processes whose temporary directory is ``folder`` or in it."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(folder).encode() in environ.read_bytes():
                found.append((environ.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found
