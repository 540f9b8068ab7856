"""An emulator as a child process: on a free port of the loopback, with data in a temporary folder, until the tests end."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from quarterjack.local.loopback import LOOPBACK

ATTEMPTS = 3
START_TIMEOUT = 120.0  # seconds; 2 to 6 are usual
# Standard input is a pipe that only the parent holds. The shell ends with the emulator, and the emulator with the parent.
UNTIL_PARENT_ENDS = 'exec 3<&0; "$@" 3<&- & ran=$!; { read -r _ <&3; kill $ran; } & wait $ran; kill $! 2>/dev/null'


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


Command = Callable[[Path, int], tuple[Sequence[str], Mapping[str, str] | None]]


@contextmanager
def running(name: str, command: Command, *, is_ready: Callable[[int], bool] = accepts) -> Iterator[str]:
    """The address of an emulator that is ready.

    ``command`` makes the command of a temporary folder and a port, and its environment (None: this process's). One that ends before it
    is ready is started again on another port: something else may have taken its own. Raises AssertionError with the end of its log.
    """
    said = ""
    for _ in range(ATTEMPTS):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
            port, log = free_port(), folder / "log"
            process = stack.enter_context(_started(folder, log, *command(folder, port)))
            if _wait(process, partial(is_ready, port)):
                yield f"{LOOPBACK}:{port}"
                return
            said = log.read_text()[-2000:]
    raise AssertionError(f"{name} does not answer:\n{said}")


@contextmanager
def _started(
    folder: Path, log: Path, words: Sequence[str], environment: Mapping[str, str] | None
) -> Iterator[subprocess.Popen[bytes]]:
    with (
        log.open("w") as out,
        subprocess.Popen(
            ["/bin/sh", "-c", UNTIL_PARENT_ENDS, "sh", *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):  # its end closes the pipe and waits
        yield process


def _wait(process: subprocess.Popen[bytes], is_ready: Callable[[], bool]) -> bool:
    """Whether it is ready; not if it ends before."""
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        if is_ready() and process.poll() is None:
            return True
        threading.Event().wait(0.05)
    return False
