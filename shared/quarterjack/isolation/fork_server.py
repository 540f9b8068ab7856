"""The preloaded parent's program: import the jobs' modules once, then fork a process for each attempt that the worker asks for.

It has one thread, because a fork copies only the thread that forks. It knows nothing of runs: the worker passes the file descriptors
of an attempt with each request, and the forked process reads its order from one of them.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import selectors
import signal
import socket
import sys
import traceback
from dataclasses import asdict, dataclass
from functools import partial
from typing import NoReturn

from quarterjack import lifeline
from quarterjack.isolation.child import work
from quarterjack.isolation.preload import preload
from quarterjack.isolation.wire import line

_FILES = 5  # passed with each request: control, talk, flags, standard output, standard error
_UNTOUCHED = ("SIGINT", "SIGTERM", "SIGHUP")  # a sender to all processes means the worker


def main(number: int, modules: list[str]) -> NoReturn:
    """Serve the worker at the other end of the socket ``number`` until that closes it, or end at once if no fork can be clean."""
    os.set_inheritable(number, False)
    control = socket.socket(fileno=number)
    report = preload(modules)
    sys.stdout.flush()  # what an import printed must not be printed again by every copy
    with contextlib.suppress(OSError):  # the worker has ended; the first read will say so
        control.sendall(line({"report": asdict(report)}))
    if report.module is not None:
        os._exit(0)
    gc.freeze()  # a collection in a copy would otherwise copy the memory that it shares
    ForkServer(control).serve()


@dataclass(frozen=True)
class ForkedAttempt:
    """A process that was forked and is not reaped: its number is its own until then."""

    pid: int
    control: socket.socket  # the worker shuts it down to have the process killed; its exit code goes over it
    pipe: int  # this end of a pipe; the kernel kills the process when it closes (Linux)

    def kill(self) -> None:
        """Kill it, which may not have made its group yet, and its group."""
        self.kill_group()
        os.kill(self.pid, signal.SIGKILL)

    def kill_group(self) -> None:
        """Kill the rest of its group. A group that still has members keeps its number, also when the process is reaped."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: only the dead are left in it
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        self.control.close()
        os.close(self.pipe)


class ForkServer:
    """Forks, kills and reaps the processes of attempts."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._attempts: dict[int, ForkedAttempt] = {}
        self._selector = selectors.PollSelector()  # not epoll, which a fork would share
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        untouched = (signal.Signals[name] for name in _UNTOUCHED)
        self._handlers = {number: signal.signal(number, signal.SIG_IGN) for number in untouched}
        self._handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(control, selectors.EVENT_READ, self._fork)
        self._selector.register(self._woken, selectors.EVENT_READ, self._reap)

    def serve(self) -> NoReturn:
        """Serve the worker's requests until it closes the socket or dies."""
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _fork(self) -> None:
        try:
            asked, numbers, _, _ = socket.recv_fds(self._control, 1, _FILES)
        except ConnectionError:  # the worker ended and had not read all answers
            asked, numbers = b"", []
        if not asked:
            for attempt in self._attempts.values():
                attempt.kill()
            os._exit(0)
        try:
            answer: dict[str, object] = {"pid": self._fork_with(numbers)}
        except OSError as problem:
            answer = {"problem": str(problem)}
        with contextlib.suppress(OSError):  # the worker died; the next read says so
            self._control.sendall(line(answer))

    def _fork_with(self, numbers: list[int]) -> int:
        with contextlib.ExitStack() as opened:
            for number in numbers:
                opened.callback(os.close, number)
            if len(numbers) != _FILES:
                raise OSError("too many open files in the process from which jobs are forked")
            tied, pipe = os.pipe()
            opened.callback(os.close, tied)
            try:
                pid = os.fork()
            except OSError:
                os.close(pipe)
                raise
            if pid == 0:
                os.close(pipe)
                self._become_attempt(tied, *numbers)
            attempt = ForkedAttempt(pid, socket.socket(fileno=os.dup(numbers[0])), pipe)
        self._attempts[pid] = attempt
        self._selector.register(attempt.control, selectors.EVENT_READ, partial(self._kill, attempt))
        return pid

    def _become_attempt(self, tied: int, control: int, talk: int, flags: int, out: int, err: int) -> NoReturn:
        """In the forked process: leave everything that is the parent's, then carry out the order."""
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for signum, handler in self._handlers.items():
                signal.signal(signum, handler or signal.SIG_DFL)  # None: a library's own, which a fork may not call
            for end in (self._woken, self._wake):
                os.close(end)
            self._control.close()
            for attempt in self._attempts.values():
                attempt.close()
            for number, place in ((out, 1), (err, 2)):
                os.dup2(number, place)
            for number in (control, out, err):
                os.close(number)
            for number in (talk, flags):
                os.set_inheritable(number, False)  # programs that the job starts have no part in this
            lifeline.tie(tied, os.getpgrp())
            if _is_closed(tied):  # before the kernel was asked
                os._exit(1)
            work(socket.socket(fileno=talk), flags)
        except BaseException:  # noqa: BLE001 (it must not go on as a second parent)
            traceback.print_exc()
        finally:
            os._exit(1)

    def _kill(self, attempt: ForkedAttempt) -> None:
        if attempt.pid in self._attempts:  # else it was reaped since the worker asked
            self._selector.unregister(attempt.control)
            attempt.kill()

    def _reap(self) -> None:
        """Tell the worker which process died and how. The rest of its group is killed."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 4_096)
        for attempt in list(self._attempts.values()):
            pid, status = os.waitpid(attempt.pid, os.WNOHANG)
            if not pid:
                continue
            attempt.kill_group()
            del self._attempts[pid]
            with contextlib.suppress(KeyError):  # it was killed
                self._selector.unregister(attempt.control)
            with contextlib.suppress(OSError):  # the worker did not wait for it
                attempt.control.sendall(line({"code": os.waitstatus_to_exitcode(status)}))
            attempt.close()


def _is_closed(pipe: int) -> bool:
    """Whether the other end of a pipe is closed; by poll, because select takes no numbers of 1,024 and more."""
    poll = select.poll()
    poll.register(pipe, 0)
    return bool(poll.poll(0))
