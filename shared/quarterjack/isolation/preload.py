"""Preload: find the jobs' functions in modules, import these, and find threads and connections of their import that a fork would break.

A fork copies memory and one thread. A second thread does not run in the copy, and a lock that it held stays locked. A socket, a
database file or a device is shared by all copies, so that two attempts would write to one connection.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quarterjack.domain.job import Job
from quarterjack.domain.policies import Isolation
from quarterjack.errors import JobError
from quarterjack.jobs import Registry, default_registry
from quarterjack.middlewares import layers_of
from quarterjack.posix import fcntl

LIMIT = 120  # seconds for all imports; then SIGALRM ends the process, and its successor imports nothing
_TASKS = Path("/proc/self/task")  # the threads of this process, those of native code too (Linux)
_FILES = Path("/dev/fd")  # the file descriptors of this process
_ENDING = 0.5  # seconds for threads that have ended to be removed by the kernel
_POLL = 0.02  # seconds between two reads of them
_REMEDY = "declare it with @job at the top level of a module that can be imported, or leave isolation='thread'"


@dataclass(frozen=True)
class JobAddress:
    """A function's address."""

    job: str  # the name that it is registered by
    module: str  # to import
    name: str  # within the module, dotted

    def find(self) -> Job:
        """Import the module; the job that it registered under that name, else one of the function of that name.

        Raises what the import raises, and AttributeError.
        """
        found: Any = importlib.import_module(self.module)
        registered = default_registry.get(self.job)
        if registered is not None and place_of(registered) == self:  # a decorator around @job may hide the name
            return registered
        for part in self.name.split("."):
            found = getattr(found, part)
        return Job(name=self.job, function=found)


def place_of(job: Job) -> JobAddress:
    """Where a job's function says that it is."""
    function = job.function
    return JobAddress(job.name, getattr(function, "__module__", None) or "", getattr(function, "__qualname__", ""))


def modules_of(jobs: Registry) -> list[str]:
    """The modules of the isolated jobs and of the functions that are their middleware, sorted."""
    isolated = [job for job in jobs if job.policies.isolation is Isolation.PROCESS]
    layers = (layer for job in isolated for layer in layers_of(job, jobs.around) if inspect.isfunction(layer))
    return sorted({*(place_of(job).module for job in isolated), *(layer.__module__ for layer in layers)} - {"__main__"})


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
    return "" if found.function is job.function else f"{place.module}.{place.name} is another function by now"


@dataclass(frozen=True, kw_only=True)
class PreloadReport:
    """Threads and connections that the imports left open."""

    module: str | None = None  # the first one whose import left something; None: all are clean
    left: list[str] = field(default_factory=list)  # threads and open files, described
    failed: dict[str, str] = field(default_factory=dict)  # the error of each module that could not be imported


def preload(modules: Sequence[str]) -> PreloadReport:
    """Import the modules, up to the first that leaves a thread or an open file."""
    known, failed = _open_files(), dict[str, str]()
    signal.alarm(LIMIT)
    try:
        for module in modules:
            try:
                importlib.import_module(module)
            except BaseException as problem:  # noqa: BLE001 (a module may call sys.exit; its attempts say so)
                failed[module] = f"{type(problem).__name__}: {problem}"
            deadline = time.monotonic() + _ENDING
            while (
                threads := _threads()
            ) and time.monotonic() < deadline:  # one that was just joined takes a moment to go
                time.sleep(_POLL)
            left = threads + [_describe(number) for number in sorted(_open_files() - known)]
            if left:
                return PreloadReport(module=module, left=left, failed=failed)
        _prepare_payloads()
    finally:
        signal.alarm(0)
    return PreloadReport(failed=failed)


def _prepare_payloads() -> None:
    """Make here, once, what checks the payloads of isolated jobs. An attempt whose job's cannot be made says so itself."""
    for job in default_registry:
        if job.policies.isolation is Isolation.PROCESS and job.payload_type is not None:
            with contextlib.suppress(JobError):
                job.payload_type.prepare()


def _threads() -> list[str]:
    """All threads but this one."""
    python = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    native = (len(list(_TASKS.iterdir())) if _TASKS.exists() else 0) - len(python) - 1
    return [f"thread {thread.name!r}" for thread in python] + (
        [f"{native} thread(s) of native code"] if native > 0 else []
    )


def _open_files() -> frozenset[int]:
    """File descriptors that are open for reading and writing: sockets, databases, devices, event queues; not logs or pipes."""
    return frozenset(number for place in _FILES.iterdir() if _is_read_and_written(number := int(place.name)))


def _is_read_and_written(number: int) -> bool:
    try:
        return fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR
    except OSError:  # the directory that listed it, closed by now
        return False


def _describe(number: int) -> str:
    if stat.S_ISSOCK(os.fstat(number).st_mode):
        with socket.socket(fileno=os.dup(number)) as found:
            with contextlib.suppress(OSError):
                return f"socket connected to {found.getpeername()}"
            return f"socket at {found.getsockname()}"
    try:
        return f"open file {(_FILES / str(number)).readlink()}"
    except OSError:  # not Linux
        return f"open file descriptor {number}"
