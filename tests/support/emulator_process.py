"""An emulator as a child process: on a free port of the loopback, with data in a temporary folder, until the tests end."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from quarterjack.local.cloud import LOOPBACK

START_TIMEOUT = 120.0  # seconds; 2 to 6 are usual
UNTIL_PARENT_ENDS = '"$@" & read -r _; kill $!; wait'  # standard input is a pipe that only the parent holds


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def accepts(port: int) -> bool:
    """Whether something listens there."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1):
            return True
    except OSError:
        return False


@contextmanager
def running(
    name: str,
    port: int,
    command: Callable[[Path], tuple[Sequence[str], Mapping[str, str] | None]],
    *,
    is_ready: Callable[[int], bool] = accepts,
) -> Iterator[str]:
    """The address of an emulator that is ready.

    ``command`` makes the command of a temporary folder, and its environment (None: this process's). Raises AssertionError with the end
    of its log if it does not become ready.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        words, environment = command(Path(folder))
        with (
            Path(folder, "log").open("w+") as log,
            subprocess.Popen(
                ["/bin/sh", "-c", UNTIL_PARENT_ENDS, "sh", *words],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):  # its end closes the pipe and waits
            _wait(name, process, lambda: is_ready(port), Path(log.name))
            yield f"{LOOPBACK}:{port}"


def _wait(name: str, process: subprocess.Popen[bytes], is_ready: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        if is_ready():
            return
        threading.Event().wait(0.05)
    raise AssertionError(f"{name} does not answer:\n{log.read_text()[-2000:]}")
