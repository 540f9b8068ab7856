"""Packages of jobs: import one with all its modules, so that its jobs, queues and schedules are registered."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import PurePath

from quarterjack.errors import InvalidInput, JobError, shorten
from quarterjack.jobs import Registry, default_registry


def check_package(package: object) -> None:
    """Raises JobError if ``package`` is not the name of a package or module. A file's name is answered with that of its module."""
    if isinstance(package, str) and (named := _module_of(package)) is not None:
        folder, module = named
        within = f", in {folder} or with it on PYTHONPATH" if folder else ""
        raise JobError(f"jobs={shorten(package)} is the name of a file; give {module}, as in an import{within}")
    if not isinstance(package, str) or not all(part.isidentifier() for part in package.split(".")):
        raise JobError(f"jobs={shorten(package)} is not the name of a package; give it as in an import: acme.jobs")


def _module_of(text: str) -> tuple[str, str] | None:
    """The folder to start in ("": the present one) and the module of a path, such as ``./acme/jobs.py``; None if it is no such path."""
    text = text.replace("\\", "/")
    path = PurePath(text)
    if path.suffix != ".py" and "/" not in text:
        return None
    parts = [*path.parent.parts, path.name.removesuffix(".py")]
    if len(parts) > 1 and parts[-1] == "__init__":
        parts.pop()
    begin = next((at for at in range(len(parts)) if all(part.isidentifier() for part in parts[at:])), None)
    return None if begin is None else (str(PurePath(*parts[:begin])) if begin else "", ".".join(parts[begin:]))


def registry_of(jobs: object) -> Registry:
    """The registry that ``jobs`` stands for: itself, the package of that name, or, for None, the default one.

    Raises InvalidInput for anything else, JobError as ``load``.
    """
    if isinstance(jobs, str):
        return load(jobs)
    if jobs is not None and not isinstance(jobs, Registry):
        remedy = "pass one package; for several, one whose modules import them"
        raise InvalidInput("jobs", jobs, "is neither the name of a package nor a Registry", remedy)
    return default_registry if jobs is None else jobs


def load(package: str, registry: Registry = default_registry) -> Registry:
    """Import a package and all its modules, so that their ``@job`` functions register; the registry.

    Raises JobError if the package cannot be imported or declares no job.
    """
    check_package(package)
    try:
        module = importlib.import_module(package)
        for found in pkgutil.walk_packages(getattr(module, "__path__", []), f"{package}."):
            if not found.name.rpartition(".")[2].startswith("__"):
                importlib.import_module(found.name)
    except ImportError as problem:
        remedy = "is it installed, or on PYTHONPATH?"
        raise JobError(f"jobs={package!r} cannot be imported: {problem}; {remedy}") from problem
    if not len(registry):
        raise JobError(f'jobs={package!r} declares no job; decorate its functions with @job("name")')
    for (
        known
    ) in registry:  # any module may declare a job's queue, or the class of its payload, so all have been imported
        if known.payload_type is not None:
            known.payload_type.check_annotation()
        if known.queue is not None and registry.find_queue(known.queue) is None:
            raise JobError(
                f'job={known.name!r}: its queue {known.queue!r} is not declared; write Queue("{known.queue}") beside it. '
                f"Declared: {', '.join(queue.name for queue in registry.queues()) or 'none'}"
            )
    return registry
