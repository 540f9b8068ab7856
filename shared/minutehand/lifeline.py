"""Lifeline: the kernel kills a process group when a pipe closes, and so when the process that alone holds its other end dies (Linux).

It needs no line of Python to run: the code of the group may hold its interpreter. A death signal (``PR_SET_PDEATHSIG``) would reach one
process only and not its children, and is tied to the thread that started it.
"""

from __future__ import annotations

import fcntl
import os
import signal


def tie(pipe: int, group: int) -> None:
    """Have the kernel kill the group when the other end of the pipe closes."""
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(pipe, fcntl.F_SETOWN, -group)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


def untie(pipe: int) -> None:
    """Undo ``tie``."""
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) & ~os.O_ASYNC)
