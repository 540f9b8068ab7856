"""Imports the user's packages, also from the working directory, as ``python -m`` does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from minutehand.errors import Misconfigured
from minutehand.jobs import Registry, default_registry, load


def find_here(packages: Sequence[str]) -> None:
    """Let packages be imported from the working directory."""
    here = str(Path.cwd())
    if packages and here not in sys.path:
        sys.path.insert(0, here)


def load_jobs(packages: Sequence[str]) -> Registry:
    """The jobs of some packages. Raises Misconfigured without any, JobError for one that cannot be imported."""
    if not packages:
        raise Misconfigured("no jobs; name the package that declares them: --jobs my.package, or MINUTEHAND_JOBS")
    find_here(packages)
    for package in packages:
        load(package, default_registry)
    return default_registry
