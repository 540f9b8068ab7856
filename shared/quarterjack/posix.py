"""The modules that Linux and macOS have and Windows lacks, and the one error that says so.

On Windows these names can be imported: whoever declares jobs, or uses the SDK or the HTTP API, never uses them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from quarterjack.errors import Misconfigured

__all__ = ["check_posix", "fcntl", "pwd", "resource"]


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
