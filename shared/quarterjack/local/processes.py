"""Child processes that end with their parent, alone or as the group of an installation; the events in their logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from quarterjack.domain.queue import Queue
from quarterjack.errors import Unavailable
from quarterjack.settings import Settings, without_installation

CRASHES = 3  # of one process within CRASH_WINDOW; then the group gives up, since a restart does not help
CRASH_WINDOW = 60.0  # seconds
_TAIL = 2_000  # characters at the end of a log that an error shows
Event = dict[str, Any]  # a log line's fields; `event` is its stable name
_LAUNCHER = Path(__file__).with_name("child.py")
_PACKAGES = str(Path(__file__).parents[2])  # the folder of this package, installed or not


class LocalProcess:
    """A Python module in a process and session of its own, so that a Ctrl-C at the terminal reaches the parent only.

    ``module`` runs as under ``python -m``; its standard output and error are appended to ``log``. ``environ`` is its whole
    environment; its ``PYTHONPATH`` comes before the folder of this package. It ends when this process ends, also if this process is killed.
    """

    def __init__(
        self, name: str, module: str, arguments: Sequence[str] = (), *, environ: Mapping[str, str], log: Path
    ) -> None:
        self.name, self.log = name, log
        self._terminated, self.overran = False, False  # the latter: it had to be killed at its end
        with log.open("ab") as sink:
            self._process = subprocess.Popen(  # noqa: S603 — our own interpreter and module
                [sys.executable, "-P", str(_LAUNCHER), module, *arguments],  # -P: without the launcher's folder
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**environ, "PYTHONPATH": os.pathsep.join(filter(None, (environ.get("PYTHONPATH"), _PACKAGES)))},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code (negative: the signal that ended it), or None while it runs."""
        return self._process.poll()

    @property
    def is_terminated(self) -> bool:
        """Whether this process has told it to end."""
        return self._terminated

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit code once it has ended, or None if it still runs after ``seconds``. Without a limit it blocks until the end."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def terminate(self) -> None:
        """Send SIGTERM once (a second signal would cut its clean-up short) and return at once."""
        if self.exit_code is None and not self._terminated:
            self._terminated = True
            self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL, which leaves no time for clean-up, and return when the process has ended."""
        self._process.kill()
        self._close()

    def stop(self, grace: float = 15.0) -> int:
        """Send SIGTERM, after ``grace`` seconds SIGKILL; returns the exit code."""
        self.terminate()
        if self.wait(grace) is None:
            self.overran = True
            self._process.kill()
        return self._close()

    def _close(self) -> int:
        code = self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@contextmanager
def changed_environ(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process's environment for the time of the block."""
    before = {name: os.environ[name] for name in changes if name in os.environ}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name in changes:
            os.environ.pop(name, None)
        os.environ.update(before)


def inherited(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without the variables that give a child access to an AWS account."""
    given = os.environ if environ is None else environ
    return {name: value for name, value in given.items() if not name.startswith("AWS_") or name == "AWS_CA_BUNDLE"}


class LogFollower:
    """Reads the complete new lines of log files at each call of ``new``; lines that are no events of ours are skipped.

    It begins at the present ends of the files. A replaced process appends to the same file.
    """

    def __init__(self, *logs: Path) -> None:
        self._offsets = {log: log.stat().st_size if log.exists() else 0 for log in logs}

    def new(self) -> Iterator[tuple[str, Event]]:
        """Events since the last call, with the name of their process; by process and in order."""
        for log, offset in list(self._offsets.items()):
            if not log.exists():
                continue
            with log.open("rb") as file:
                file.seek(offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # still being written
                    self._offsets[log] += len(line)
                    if (event := parse(line)) is not None:
                        yield log.stem, event


def parse(line: bytes) -> Event | None:
    """The fields of a log line; None if it is no event of ours (a traceback, a library's warning)."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and isinstance(fields.get("event"), str) else None


@dataclass(frozen=True)
class ProcessRole:
    """One process: its name, and its command line after ``quarterjack``."""

    name: str
    arguments: tuple[str, ...]


class ProcessGroup:
    """Processes that run against one installation. Use it as a context manager.

    ``environment`` holds the variables of their cloud. Each writes JSON lines to ``<folder>/<name>.log``. ``replace_ended`` starts a
    process again that ended by itself.
    """

    def __init__(
        self, roles: Sequence[ProcessRole], settings: Settings, environment: Mapping[str, str], folder: Path
    ) -> None:
        self._roles = {role.name: role for role in roles}
        own = {**environment, **variables(settings), "PYTHONUNBUFFERED": "1"}
        self._environ = without_installation() | own  # without settings of this process that are not in `settings`
        self._folder = folder
        self._children: dict[str, LocalProcess] = {}
        self._crashes: deque[ProcessCrash] = deque()
        self._begins: dict[str, int] = {}  # length of each process's log at its start

    def __getitem__(self, name: str) -> LocalProcess:
        return self._children[name]

    @property
    def names(self) -> list[str]:
        return list(self._roles)

    def follow(self) -> LogFollower:
        """A reader of all logs from their present ends on."""
        return LogFollower(*(self._folder / f"{name}.log" for name in self._roles))

    def start(self) -> Self:
        try:
            for name in self._roles:
                self._start(name)
        except BaseException:  # Ctrl-C, too
            self.stop(0)
            raise
        return self

    def replace_ended(self) -> list[str]:
        """Start ended processes again; returns their names. Raises Unavailable for a process that ended CRASHES times in CRASH_WINDOW."""
        ended = [name for name, child in self._children.items() if child.exit_code is not None]
        for name in ended:
            self._note_crash(name)
            self._children[name].stop()
            self._start(name)
        return ended

    def _note_crash(self, name: str) -> None:
        now, child = time.monotonic(), self._children[name]
        self._crashes.append(ProcessCrash(now, name, unfinished_jobs(child.log, self._begins[name])))
        while self._crashes[0].at < now - CRASH_WINDOW:
            self._crashes.popleft()
        crashes = [crash for crash in self._crashes if crash.name == name]
        if len(crashes) >= CRASHES:
            problem = f"{name} ended {CRASHES} times in {CRASH_WINDOW:.0f} s{_suspects(crashes)}; the end of its log {child.log}:"
            raise Unavailable(f"{problem}\n{child.log.read_text(errors='replace')[-_TAIL:].strip()}")

    def stop(self, grace: float = 20.0) -> None:
        """Send SIGTERM to all, and SIGKILL to those that have not ended after ``grace`` seconds."""
        deadline = time.monotonic() + grace
        for child in self._children.values():
            child.terminate()
        for child in self._children.values():
            child.stop(max(0.0, deadline - time.monotonic()))
        self._children.clear()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, name: str) -> None:
        log = self._folder / f"{name}.log"
        self._begins[name] = log.stat().st_size if log.exists() else 0
        arguments = self._roles[name].arguments
        self._children[name] = LocalProcess(name, "quarterjack", arguments, environ=self._environ, log=log)


@dataclass(frozen=True)
class ProcessCrash:
    """A process that ended by itself."""

    at: float  # monotonic seconds
    name: str
    jobs: frozenset[str]  # of the runs that it had started and not ended


def unfinished_jobs(log: Path, begin: int) -> frozenset[str]:
    """The jobs of the runs that a worker has started and not ended, by its log from byte ``begin`` on."""
    running: dict[str, str] = {}
    with log.open("rb") as file:
        file.seek(begin)
        for event in filter(None, map(parse, file)):
            if event["event"] == "run.started":
                running[str(event.get("run_id"))] = str(event.get("job"))
            elif event["event"] == "run.ended":
                running.pop(str(event.get("run_id")), None)
    return frozenset(running.values())


def _suspects(crashes: Sequence[ProcessCrash]) -> str:
    """The part of an error about the jobs that were running at every crash; empty if there are none."""
    jobs = sorted(frozenset.intersection(*(crash.jobs for crash in crashes)))
    if not jobs:
        return ""
    which = f"job {jobs[0]!r}" if len(jobs) == 1 else f"one of the jobs {', '.join(map(repr, jobs))}"
    remedy = "then a crash ends its attempt only, or leave out what schedules it"
    return f", each time while it ran {which}: repair the job, or give it isolation='process', {remedy}"


def roles(
    *,
    tickers: int = 1,
    workers: int = 2,
    jobs: Sequence[str],
    concurrency: int = 10,
    queues: Iterable[Queue] = (),
    history: bool = True,
) -> list[ProcessRole]:
    """The usual processes: ``tickers``, ``workers``, a worker for each declared queue, an undertaker, and with ``history`` a historian."""
    alone = ("undertaker", "historian") if history else ("undertaker",)
    worker = ("worker", *(argument for package in jobs for argument in ("--jobs", package)))
    shared = (*worker, "--concurrency", str(concurrency))
    return [
        *(ProcessRole(f"worker@{queue.name}", (*worker, "--queue", queue.name)) for queue in queues),
        *(ProcessRole(f"worker-{n + 1}", shared) for n in range(workers)),
        *(ProcessRole(f"ticker-{n + 1}", ("ticker",)) for n in range(tickers)),
        *(ProcessRole(name, (name,)) for name in alone),
    ]


def variables(settings: Settings) -> dict[str, str]:
    """The environment variables from which another process makes the same settings."""
    own = {n: v for n, v in vars(settings).items() if v is not None and n not in ("endpoint", "region")}
    return {f"QUARTERJACK_{n.upper()}": ("off", "on")[v] if isinstance(v, bool) else str(v) for n, v in own.items()}
