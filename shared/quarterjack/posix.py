"""The modules that Linux and macOS have and Windows lacks, the one error that says so, and a process group that dies with a pipe.

On Windows these names can be imported: a program that declares jobs, or uses the SDK or the HTTP API, never uses them.

The kernel kills a process group when a pipe closes, so when the only process with the pipe's other end dies (Linux; ``tie``). This works
without running Python: a job may block its interpreter. A death signal (``PR_SET_PDEATHSIG``) would reach one process and not its
children, and it depends on the thread that started the process.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from quarterjack.errors import Misconfigured

__all__ = ["check_posix", "fcntl", "pwd", "resource", "tie", "untie"]


def check_posix(what: str) -> None:
    """Raise Misconfigured on Windows; ``what`` needs another system."""
    if sys.platform == "win32":
        raise _refusal(what)


def _refusal(what: str) -> Misconfigured:
    remedy = "run it on Linux, on macOS, or on Windows in WSL; the SDK and the HTTP API run on Windows itself"
    return Misconfigured(f"platform={sys.platform!r}: {what} cannot run here; {remedy}")


class _Lacking:
    """Stands for a module that this system lacks. Raises Misconfigured when something of it is used."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        raise _refusal(f"what needs Python's module {self._module}")


def _loaded(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError:
        return _Lacking(module)


if TYPE_CHECKING:
    import fcntl
    import pwd
    import resource
else:
    fcntl, pwd, resource = (_loaded(module) for module in ("fcntl", "pwd", "resource"))


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
