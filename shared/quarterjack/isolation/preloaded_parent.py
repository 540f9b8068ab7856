"""The worker's handle on its preloaded parent: start it, have it fork, replace it when it died."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

from quarterjack.isolation.preload import LIMIT, PreloadReport
from quarterjack.isolation.wire import read_line

log = logging.getLogger(__name__)

_STARTS = 2  # of the parent for one fork: the second one without jobs if the first ended by their import
_END = 5.0  # seconds that a parent has to end, until it is killed

_PROGRAM = (  # it imports nothing of the package before it has the worker's path
    "import json, sys; given = json.loads(sys.argv[1]); sys.path[:] = given['path']; "
    "from quarterjack.isolation.fork_server import main; main(given['number'], given['modules'])"
)


class PreloadedParent:
    """The process from which a worker's isolated attempts are forked. It has imported ``modules``, the jobs' own.

    It starts when it is first needed. One that died is replaced; one that died before its imports were done, or ended because of what
    they had left, by one that imports nothing, whose forks import their job's module themselves.
    """

    def __init__(self, modules: Sequence[str] = ()) -> None:
        self._modules = list(modules)
        self._lock = threading.Lock()  # one request at a time
        self._connection: _Connection | None = None
        self._closed = False

    def start(self) -> None:
        """Start it ahead of the first attempt."""
        with self._lock, contextlib.suppress(OSError):  # the first attempt will say so
            self._running()

    def fork(self, numbers: Sequence[int]) -> int:
        """Fork a process that is given these file descriptors; its process id. Raises OSError."""
        with self._lock:
            for _ in range(_STARTS):
                connection = self._running()
                try:
                    return connection.fork(numbers)
                except ConnectionError:
                    self._discard(connection)
        raise OSError(f"the process from which jobs are forked ended {_STARTS} times")

    def close(self) -> None:
        """End it, and with it the processes forked from it."""
        self._closed = True
        if self._connection is not None:
            self._connection.hang_up()  # wakes a fork that waits for it
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _running(self) -> _Connection:
        if self._closed:
            raise OSError("the worker is ending")
        if self._connection is None:
            self._connection = _Connection(self._modules)
        return self._connection

    def _discard(self, connection: _Connection) -> None:
        code = connection.close()
        self._connection = None
        if self._closed:
            return
        report = connection.report
        if report is None or report.module is not None:
            self._modules = []
        if report is None or report.module is None:  # else it ended because of what its imports had left
            log.warning("isolation.parent_died", extra={"code": code, "preloads": bool(self._modules)})


class _Connection:
    """One such process, and the socket to it.

    It is a new interpreter, not a fork: the worker has threads. Its session is its own, so that Ctrl-C reaches the worker only.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self.report: PreloadReport | None = None  # of its imports, when they are done
        self._socket, theirs = socket.socketpair()
        with theirs:
            given = {"number": theirs.fileno(), "path": sys.path, "modules": list(modules)}
            try:
                self._process = subprocess.Popen(  # noqa: S603 (our own interpreter and program)
                    [sys.executable, "-c", _PROGRAM, json.dumps(given)],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except OSError:
                self._socket.close()
                raise
        self._answers = self._socket.makefile("rb")

    def fork(self, numbers: Sequence[int]) -> int:
        """Raises ConnectionError if the process is dead, OSError if it cannot fork."""
        with contextlib.suppress(ConnectionError):  # it has ended; what it said before that comes first
            socket.send_fds(self._socket, [b"f"], numbers)
        while (answer := self._read()) and "report" in answer:
            self.report = report = PreloadReport(**answer["report"])
            for module, problem in report.failed.items():
                log.warning("isolation.import_failed", extra={"imported": module, "error": problem})
            if report.module is not None:  # then it has ended, and its successor imports nothing
                log.warning("isolation.not_preloaded", extra={"imported": report.module, "left": report.left})
        if "problem" in answer:
            raise OSError(answer["problem"])
        return int(answer["pid"])

    def await_report(self, seconds: float) -> PreloadReport:
        """Threads and connections that its imports left open. Raises OSError."""
        self._socket.settimeout(seconds)
        return PreloadReport(**self._read()["report"])

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> int:
        """Have it end, and wait for that; its exit code."""
        self.hang_up()
        self._answers.close()
        self._socket.close()
        try:
            return self._process.wait(_END)
        except subprocess.TimeoutExpired:  # its imports hold it
            self._process.kill()
            return self._process.wait()

    def _read(self) -> dict[str, Any]:
        answer = read_line(self._answers)
        if answer is None:
            raise ConnectionResetError("the process from which jobs are forked has ended")
        return answer


def report_of(modules: Sequence[str]) -> PreloadReport:
    """Import modules in a preloaded parent of their own, which ends then; what they left. Raises OSError if it died or hung."""
    with contextlib.closing(_Connection(modules)) as connection:
        return connection.await_report(LIMIT + _END)
