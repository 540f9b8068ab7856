"""A fresh installation on the local cloud with real processes, and what the tests look at."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from quarterjack import Scheduler, Settings
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.processes import LocalProcess, ProcessGroup, ProcessRole, inherited, variables
from quarterjack.services import system_clock

ROOT = Path(__file__).parents[3]
JOBS = ("--jobs", "tests.support.installation.work")


@dataclass(frozen=True)
class Start:
    """One line of the witness."""

    run: str
    attempt: int
    at: float  # UTC seconds
    due: float  # UTC seconds
    pid: int
    said: object = None  # what its payload says, if it says something


@dataclass
class Scene:
    cloud: LocalCloud
    settings: Settings
    folder: Path
    cleanup: ExitStack = field(default_factory=ExitStack)

    @property
    def to(self) -> str:
        """The witness file, for payloads."""
        return str(self.folder / "witness.jsonl")

    @property
    def scheduler(self) -> Scheduler:
        return Scheduler(settings=self.settings)

    def scheduler_of(self, ago: timedelta) -> Scheduler:
        """The SDK as it was called some time ago: what it schedules is for the ticker to find."""
        offset = int(ago.total_seconds() * 1000)
        return Scheduler(settings=self.settings, clock=lambda: system_clock() - offset)

    def start(self, *roles: ProcessRole) -> ProcessGroup:
        """Start processes; they end with the test."""
        environment = {**self.cloud.environment, "PYTHONPATH": str(ROOT)}
        crew = ProcessGroup(roles, self.settings, environment, self.folder)
        follower = crew.follow()
        crew.start()
        self.cleanup.callback(crew.stop, grace=0)
        waiting = {role.name for role in roles if role.name.startswith("worker")}

        def ready() -> bool:
            waiting.difference_update(name for name, event in follower.new() if event["event"] == "worker.started")
            return not waiting

        assert until(ready, 60), f"not ready: {waiting}"
        return crew

    def run_module(self, module: str) -> LocalProcess:
        """Run a module of the tests against this installation."""
        environment = {**inherited(), **self.cloud.environment, "PYTHONPATH": str(ROOT)}
        environment |= variables(self.settings)
        child = LocalProcess("module", module, environ=environment, log=self.folder / "module.log")
        self.cleanup.callback(child.stop)
        return child

    def starts(self) -> list[Start]:
        """What the jobs say, in order."""
        path = Path(self.to)
        return [Start(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []

    def counts(self) -> Counter[str]:
        """Starts by run id."""
        return Counter(start.run for start in self.starts())

    def ended(self, *run_ids: str, within: float) -> list[Any]:
        """The runs, once all have ended."""
        scheduler = self.scheduler

        def runs() -> list[Any]:
            return [scheduler.get_run(run_id) for run_id in run_ids]

        assert until(lambda: all(run.ended_at for run in runs()), within), f"{runs()}\n{self.logs()}"
        return runs()

    def logs(self) -> str:
        """The ends of all logs, for a failure's message."""
        return "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in sorted(self.folder.glob("*.log")))


def worker(name: str = "worker-1", *options: str) -> ProcessRole:
    return ProcessRole(name, ("worker", *JOBS, *options))


def ticker(name: str = "ticker-1", *, period: float = 60) -> ProcessRole:
    return ProcessRole(name, ("ticker", "--period", str(period)))


UNDERTAKER = ProcessRole("undertaker", ("undertaker",))


def until(condition: Callable[[], bool], seconds: float, *, look: float = 0.1) -> bool:
    """Whether ``condition`` came true within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        threading.Event().wait(look)
    return True


def in_seconds(number: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=number)


def duplicates(counts: Counter[str]) -> Sequence[str]:
    return [run for run, count in counts.items() if count > 1]
