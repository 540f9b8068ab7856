"""The files of the checkout that belong to it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
# What .gitignore leaves out, where there is no git to ask, e.g. in an unpacked archive.
_BUILT = frozenset({"build", "cdk.out", "node_modules", "__pycache__"})


@cache
def files() -> tuple[Path, ...]:
    """Every tracked file that exists, relative to the checkout; without git every file outside of what is built."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    try:
        told = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return tuple(sorted(_walked()))
    named = map(Path, filter(None, os.fsdecode(told).split("\0")))
    return tuple(sorted(path for path in named if (ROOT / path).is_file()))


def _walked() -> Iterator[Path]:
    for folder, inner, names in os.walk(ROOT):
        inner[:] = [name for name in inner if name not in _BUILT and not name.startswith(".")]
        yield from (Path(folder, name).relative_to(ROOT) for name in names)
