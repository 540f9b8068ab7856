"""The user's job package: its place, its name, its requirements and the queues that it declares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from quarterjack.domain.queue import Queue
from quarterjack.errors import InvalidInput, JobError
from quarterjack.local.declared import declared_queues

_TAKEN = frozenset({"functions", "quarterjack"})  # top-level names that the bundle has already


@dataclass(frozen=True, kw_only=True)
class JobPackage:
    """An importable package (or a single module) whose import registers the jobs."""

    name: str  # as it is imported, dots included: the value of QUARTERJACK_JOBS
    root: Path  # its outermost folder, or the module's file; copied into the bundle
    requirements: Path | None  # its requirements file, in pip's format


def find_jobs(path: str | Path, requirements: str | Path | None = None) -> JobPackage:
    """The package at ``path``, a folder with ``__init__.py`` or a ``.py`` file, relative to the working directory.

    A package inside a package is bundled from the outermost one. Without ``requirements``, a ``requirements.txt`` in the
    package or beside it is taken.
    """
    place = Path(path).resolve()
    if not (place / "__init__.py").is_file() and not (place.suffix == ".py" and place.is_file()):
        raise InvalidInput(
            "jobs", str(path), "is not a Python package", "give a folder with __init__.py, or a .py file"
        )
    parts, root = [place.stem], place
    while (root.parent / "__init__.py").is_file():
        root = root.parent
        parts.insert(0, root.name)
    if parts[0] in _TAKEN:
        raise InvalidInput("jobs", str(path), f"the bundle has a package {parts[0]!r} of its own", "rename yours")
    return JobPackage(name=".".join(parts), root=root, requirements=_requirements(root, requirements))


def declared_by(package: JobPackage) -> tuple[Queue, ...]:
    """The queues that the package declares. Raises InvalidInput if the import that this needs fails."""
    try:
        return declared_queues([package.name], within=package.root.parent)
    except JobError as problem:
        remedy = "install what it imports, or pass queues=[…] with what it declares"
        raise InvalidInput("queues", None, f"cannot be read from the package: {problem}", remedy) from problem


def _requirements(root: Path, given: str | Path | None) -> Path | None:
    if given is not None:
        place = Path(given).resolve()
        if not place.is_file():
            raise InvalidInput("requirements", str(given), "is not a file", "give a file in pip's requirements format")
        return place
    beside = (root / "requirements.txt", root.parent / "requirements.txt")
    return next((place for place in beside if place.is_file()), None)
