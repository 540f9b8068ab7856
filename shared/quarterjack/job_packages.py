"""Packages of jobs: import one with all its modules, so that its jobs, queues and schedules are registered; the name of its version.

The application version of a process is named by its settings, else by the package of its jobs, else by a digest of their files.
"""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePath

from quarterjack.domain.tenants.app_versions import check_version
from quarterjack.errors import InvalidInput, JobError, shorten
from quarterjack.jobs import Registry, default_registry

_DIGITS = 12  # hexadecimal, of a digest
_LONGEST = 40  # characters of a package's version


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


def app_version_of(jobs: Registry, named: str | None) -> str:
    """The name of the version: ``named``, else the version of the package of most jobs, else a digest of its files."""
    if named is not None:
        return named
    package = package_of(jobs)
    if package is None:
        return _digest_of(())
    said = package_version(package)
    try:
        return check_version(said)
    except InvalidInput:  # there is none, or it is no name
        return _digest_of_package(package)


def package_of(jobs: Registry) -> str | None:
    """The package that most of the jobs are of; None without jobs."""
    modules = [str(getattr(job.function, "__module__", "")) for job in jobs]
    packages = [module.partition(".")[0] for module in modules if module]
    return max(sorted(set(packages)), key=packages.count) if packages else None


def package_version(package: str) -> str | None:
    """The ``__version__`` of a package, or that of the distribution of its name; None if it has neither."""
    said = getattr(sys.modules.get(package), "__version__", None)
    if isinstance(said, str):
        return said[:_LONGEST]
    from importlib import metadata  # noqa: PLC0415 (slow to import: not on the way to a function's first batch)

    try:
        return metadata.version(package)[:_LONGEST]
    except (metadata.PackageNotFoundError, ValueError):
        return None


@cache  # once a process: what it has imported stays, whatever becomes of the files
def _digest_of_package(package: str) -> str:
    return _digest_of(_files_of(package))


def _files_of(package: str) -> Iterator[tuple[str, bytes]]:
    """The Python files of a package or module, by their places in it, in order."""
    module = sys.modules.get(package)
    folders = [Path(each) for each in getattr(module, "__path__", ())]
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            yield path.relative_to(folder).as_posix(), path.read_bytes()
    file = getattr(module, "__file__", None)
    if not folders and file is not None:
        yield Path(file).name, Path(file).read_bytes()


def _digest_of(files: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, content in files:
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:_DIGITS]
