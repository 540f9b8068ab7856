"""Places: where a job's function is found again by another process."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from minutehand.domain.job import Job, JobFunction
from minutehand.domain.policies import Isolation
from minutehand.errors import JobError
from minutehand.jobs import default_registry

_REMEDY = "declare it with @job at the top level of a module that can be imported, or leave isolation='thread'"


@dataclass(frozen=True)
class Place:
    """A function's address."""

    job: str  # the name that it is registered by
    module: str  # to import
    name: str  # within the module, dotted

    def find(self) -> JobFunction:
        """Import the module; the function that it registered under the job's name, else the one of that name.

        Raises what the import raises, and AttributeError.
        """
        found: Any = importlib.import_module(self.module)
        registered = default_registry.get(self.job)
        if registered is not None and place_of(registered) == self:  # a decorator around @job may hide the name
            return registered.function
        for part in self.name.split("."):
            found = getattr(found, part)
        function: JobFunction = found
        return function


def place_of(job: Job) -> Place:
    """Where a job's function says that it is."""
    function = job.function
    return Place(job.name, getattr(function, "__module__", None) or "", getattr(function, "__qualname__", ""))


def modules_of(jobs: Iterable[Job]) -> list[str]:
    """The modules of the isolated jobs, sorted."""
    return sorted({place_of(job).module for job in jobs if job.policies.isolation is Isolation.PROCESS})


def check_isolated(jobs: Iterable[Job]) -> None:
    """Raise JobError for an isolated job that a process of its own could not find."""
    for job in jobs:
        if job.policies.isolation is Isolation.PROCESS:
            why = _unreachable(job)
            if why:
                raise JobError(f"job={job.name!r} has isolation='process', but {why}; {_REMEDY}")


def _unreachable(job: Job) -> str:
    place = place_of(job)
    if not place.module or not place.name:
        return f"{job.function!r} is not a function with a name of its own"
    if place.module == "__main__":
        return f"{place.name} is declared in the program that was started, which another process cannot import"
    try:
        found = place.find()
    except (ImportError, AttributeError) as problem:
        return f"{place.module}.{place.name} exists only in this process ({problem})"
    return "" if found is job.function else f"{place.module}.{place.name} is another function by now"
