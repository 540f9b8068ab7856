"""``minutehand local`` in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def local(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command running, its output in a pipe; it is ended with the block."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "MINUTEHAND_"))}
    environ |= {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "minutehand", "local", *arguments]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as running:
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
