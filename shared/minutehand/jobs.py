"""Jobs: the ``@job`` decorator and the registry it fills."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from minutehand.errors import InvalidInput, JobError
from minutehand.model.job import Job, JobFunction
from minutehand.model.names import check_name
from minutehand.model.policies import Policies, Retry, check_seconds, overrides
from minutehand.model.policies import isolation as isolation_of

_F = TypeVar("_F", bound=Callable[..., object])


class Registry:
    """The jobs that a process knows, by name.

    >>> registry = Registry()
    >>> @registry.job("reports.daily")
    ... def daily(ctx, payload):
    ...     return None
    >>> registry.names()
    ['reports.daily']
    """

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}

    def job(
        self,
        name: str,
        *,
        delivery: str | None = None,
        start: str | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        deadline: float | None = None,
        cancel_grace: float = 30.0,
        isolation: str = "thread",
    ) -> Callable[[_F], _F]:
        """Register the decorated function ``(ctx, payload)``, plain or async, as a job. The function stays as it is.

        ``delivery`` is "at_least_once" (default), "exactly_once" or "at_most_once", ``start`` "prompt" (default, 0-1 s late) or
        "exact" (milliseconds late), ``retry`` a Retry. In seconds: ``timeout`` of one attempt, ``deadline`` after the due time
        past which no attempt starts, ``cancel_grace`` that a cancelled job has to end. ``isolation="process"`` runs it in a
        process of its own on worker processes. Raises InvalidInput, or JobError for a second job of that name.
        """
        check_name(name, "job")
        given = overrides(delivery=delivery, start=start, retry=retry, timeout=timeout, deadline=deadline)
        grace = check_seconds("cancel_grace", cancel_grace)
        policies = replace(
            Policies().overridden(given),
            cancel_grace=30.0 if grace is None else grace,
            isolation=isolation_of(isolation),
        )

        def register(function: _F) -> _F:
            self.add(Job(name=name, function=function, policies=policies))
            return function

        return register

    def add(self, job: Job) -> None:
        """Register a job. Raises JobError if its name is taken or it cannot be called with (ctx, payload)."""
        _check_callable(job.name, job.function)
        known = self._jobs.get(job.name)
        if known is not None and not _same_function(known.function, job.function):
            raise JobError(
                f"job={job.name!r} is declared twice, in {_place(known.function)} and {_place(job.function)}; rename one of them"
            )
        self._jobs[job.name] = job

    def get(self, name: str) -> Job | None:
        """The job of that name, or None."""
        return self._jobs.get(name)

    def require(self, name: object) -> Job:
        """The job of that name; InvalidInput names the nearest ones if there is none."""
        job = self._jobs.get(name) if isinstance(name, str) else None
        if job is not None:
            return job
        near = difflib.get_close_matches(str(name), self._jobs, n=3)
        known = (
            f"did you mean {', '.join(map(repr, near))}?"
            if near
            else f"known jobs: {', '.join(self.names()) or 'none'}"
        )
        raise InvalidInput(
            "job",
            name,
            "is not registered in this process",
            f"{known}; import the package that declares it, or pass check_jobs=False to Scheduler if workers elsewhere know it",
        )

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def __len__(self) -> int:
        return len(self._jobs)


default_registry = Registry()
job = default_registry.job


def load(package: str, registry: Registry = default_registry) -> Registry:
    """Import a package and all its modules, so that their ``@job`` functions register; the registry.

    Raises JobError if the package cannot be imported or declares no job.
    """
    try:
        module = importlib.import_module(package)
        for found in pkgutil.walk_packages(getattr(module, "__path__", []), f"{package}."):
            if not found.name.rpartition(".")[2].startswith("__"):
                importlib.import_module(found.name)
    except ImportError as problem:
        raise JobError(
            f"jobs={package!r} cannot be imported: {problem}; is it installed, or on PYTHONPATH?"
        ) from problem
    if not len(registry):
        raise JobError(f'jobs={package!r} declares no job; decorate its functions with @job("name")')
    return registry


def _check_callable(name: str, function: JobFunction) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise JobError(
            f"job={name!r}: {_place(function)} is a generator, whose code a call does not run; return instead of yield"
        )
    try:
        inspect.signature(function).bind(object(), object())
    except (TypeError, ValueError) as problem:
        raise JobError(f"job={name!r}: {_place(function)} cannot be called with (ctx, payload): {problem}") from None


def _same_function(one: JobFunction, other: JobFunction) -> bool:
    """Whether a module was merely imported again."""
    return _place(one) == _place(other) and "<locals>" not in _place(one)


def _place(function: JobFunction) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"
