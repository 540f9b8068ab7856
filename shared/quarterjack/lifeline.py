"""The kernel kills a process group when a pipe closes, so when the only process with the pipe's other end dies (Linux).

This works without running Python: a job may block its interpreter. A death signal (``PR_SET_PDEATHSIG``) would reach one process and
not its children, and it depends on the thread that started the process.
"""

from __future__ import annotations

import os
import signal

from quarterjack.posix import fcntl


def tie(pipe: int, group: int) -> None:
    """Let the kernel kill the group when the other end of the pipe closes."""
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(pipe, fcntl.F_SETOWN, -group)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


def untie(pipe: int) -> None:
    """Undo ``tie``."""
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) & ~os.O_ASYNC)
