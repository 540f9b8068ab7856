"""The memory of a worker process: few arenas for its threads' allocations, what the garbage collector leaves out, and what it holds.

glibc gives threads up to eight arenas a core. Memory that is free in one arena serves no allocation in another, so each keeps what its
busiest moment took, and a worker grows for hours although it holds no more objects.
"""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress
from pathlib import Path

from quarterjack.errors import InvalidInput

MB = 2**20
_ARENAS = 2  # Python's lock lets one thread allocate at a time anyway
_M_ARENA_MAX = -8  # of mallopt, malloc.h
_CHOSEN = ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")  # variables with which an operator has chosen
_STATM = Path("/proc/self/statm")


def limit_arenas() -> None:
    """Call it before threads start. Does nothing without glibc, or if the environment says how many arenas there may be."""
    if any(name in os.environ for name in _CHOSEN):
        return
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)


def keep_imported() -> None:
    """Let the garbage collector leave out what is there now, which stays: a full collection would take 25 ms of processor time for it."""
    gc.freeze()


def resident() -> float | None:
    """Resident memory of this process in MB, its children not included. None if the system does not say."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / MB


def check_limit(limit: int) -> None:
    """Raises InvalidInput for a limit (MB) that this process reaches before its first run, or that cannot be watched."""
    present = resident()
    if present is None:
        raise InvalidInput(
            "max_memory", limit, "cannot be watched: this system has no /proc/self/statm", "leave it out"
        )
    if present >= limit:
        remedy = f"give at least {2 * present:.0f}, or import less in the jobs' packages"
        raise InvalidInput("max_memory", limit, f"is less than the {present:.0f} MB of a worker without a run", remedy)
