"""Surroundings: the worker's environment, working directory, limits and import path, for a process that was forked from another one.

The preloaded parent starts before the attempt does. Whatever the worker changed since then (credentials above all) reaches the attempt
by these two functions.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

_LIMITS = {name: number for name, number in vars(resource).items() if name.startswith("RLIMIT_")}


def capture() -> dict[str, Any]:
    """The surroundings of this process, JSON-able."""
    return {
        "path": sys.path,
        "environment": dict(os.environ),
        "directory": _directory(),
        "limits": {name: resource.getrlimit(number) for name, number in _LIMITS.items()},
    }


def apply(captured: dict[str, Any]) -> None:
    """Give this process the surroundings of the one that captured them. Raises OSError or ValueError where it may not have them."""
    sys.path[:] = captured["path"]
    os.environ.clear()
    os.environ.update(captured["environment"])
    time.tzset()
    if captured["directory"] is not None:
        os.chdir(captured["directory"])
    for name, limits in captured["limits"].items():
        if resource.getrlimit(_LIMITS[name]) != tuple(limits):
            resource.setrlimit(_LIMITS[name], tuple(limits))


def _directory() -> str | None:
    """The working directory, or None if it was removed."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return None
