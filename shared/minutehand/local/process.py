"""Child processes that end with their parent: start, wait, stop by process id."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

_LAUNCHER = Path(__file__).with_name("child.py")
_PACKAGES = str(Path(__file__).parents[2])  # the folder of this package, installed or not


class LocalProcess:
    """A Python module in a process and session of its own, so that a Ctrl-C at the terminal reaches the parent only.

    ``module`` runs as under ``python -m``; its standard output and error are appended to ``log``. ``environ`` is its whole
    environment. It ends when this process ends, also if this process is killed.
    """

    def __init__(
        self, name: str, module: str, arguments: Sequence[str] = (), *, environ: Mapping[str, str], log: Path
    ) -> None:
        self.name, self.log = name, log
        self._terminated = False
        with log.open("ab") as sink:
            self._process = subprocess.Popen(  # noqa: S603 — our own interpreter and module
                [sys.executable, "-P", str(_LAUNCHER), module, *arguments],  # -P: without the launcher's folder
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**environ, "PYTHONPATH": os.pathsep.join(filter(None, (_PACKAGES, environ.get("PYTHONPATH"))))},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code (negative: the signal that ended it), or None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """The exit code once it has ended, or None if it still runs after ``seconds``."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def terminate(self) -> None:
        """Send SIGTERM once (a second signal would cut its clean-up short) and return at once."""
        if self.exit_code is None and not self._terminated:
            self._terminated = True
            self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL, which leaves no time for clean-up, and return when the process has ended."""
        self._process.kill()
        self._close()

    def stop(self, grace: float = 15.0) -> int:
        """Send SIGTERM, after ``grace`` seconds SIGKILL; returns the exit code."""
        self.terminate()
        if self.wait(grace) is None:
            self._process.kill()
        return self._close()

    def _close(self) -> int:
        code = self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@contextmanager
def changed_environ(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process's environment for the time of the block."""
    before = {name: os.environ[name] for name in changes if name in os.environ}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name in changes:
            os.environ.pop(name, None)
        os.environ.update(before)


def inherited(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without the variables that give a child access to an AWS account."""
    given = os.environ if environ is None else environ
    return {name: value for name, value in given.items() if not name.startswith("AWS_") or name == "AWS_CA_BUNDLE"}
