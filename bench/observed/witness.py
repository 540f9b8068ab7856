"""The witness of every scheduler that is measured: each job appends one line to a file of its process. Standard library only.

The peers' processes import this module too, in a virtual environment that has nothing of ours.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = "BENCH_WITNESS"  # the variable that names the folder
_files: dict[int, int] = {}  # of this process and of those that were forked from it: file descriptors by process id


class Began(NamedTuple):
    """A job began."""

    key: str  # of whose
    due: int  # UTC ms
    at: float  # UTC ms


def note(key: str, due: int) -> None:
    """Say that a job begins now. ``key`` has no space in it."""
    at = time.time() * 1e3
    os.write(_file(), f"{key} {due} {at:.3f}\n".encode())


def _file() -> int:
    pid = os.getpid()
    if pid not in _files:
        place = Path(os.environ[FOLDER], f"{pid}.began")
        _files[pid] = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    return _files[pid]


def read(folder: Path) -> Iterator[Began]:
    """All that was noted so far, by process and in order; a line that is still being written is left out."""
    for place in sorted(folder.glob("*.began")):
        for line in place.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                key, due, at = line.split()
                yield Began(key, int(due), float(at))


def count(folder: Path) -> int:
    """How many jobs have begun."""
    return sum(place.read_bytes().count(b"\n") for place in folder.glob("*.began"))
