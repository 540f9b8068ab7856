"""Our own processes over an embedded cloud, as ``quarterjack`` starts them, with their CPU and that of the cloud told apart."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from quarterjack import Scheduler
from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.local.cloud import LocalCloud, reached_by_this_process
from quarterjack.local.processes import Event, LogFollower, ProcessGroup, roles
from quarterjack.ports.services import Clock
from quarterjack.settings import Settings
from quarterjack.testing.cloud import fresh_settings

from bench.meter import cpu
from bench.observed import jobs, witness

SHARDS = 16  # as installed
_ROOT = Path(__file__).parents[2]
_READY = 60.0  # seconds for all of them to say that they are there
_LOOK = 0.1


class Running(Protocol):
    """An installation to be measured."""

    @property
    def folder(self) -> Path:
        """That of the witness."""

    def scheduler(self, clock: Clock) -> Scheduler:
        """Its SDK."""

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far: of our processes by what they do, and of the cloud."""

    def look(self) -> None:
        """Wait a moment, and fail if the figures are worthless."""

    def pids(self) -> Sequence[int]:
        """All processes that take part."""


def wait_for(running: Running, fires: int, seconds: float, report: Callable[[int], None] = lambda _: None) -> None:
    """Wait until ``fires`` jobs have begun, at most ``seconds``; ``report`` is given the count at every look."""
    deadline = time.monotonic() + seconds
    while (begun := witness.count(running.folder)) < fires and time.monotonic() < deadline:
        report(begun)
        running.look()


@dataclass(frozen=True)
class Ours:
    """Processes over an embedded cloud."""

    cloud: LocalCloud
    settings: Settings
    crew: ProcessGroup
    follower: LogFollower
    folder: Path

    def scheduler(self, clock: Clock) -> Scheduler:
        return Scheduler(settings=self.settings, clock=clock)

    def cpu(self) -> dict[str, float]:
        found = {"cloud": cpu(self.cloud.pid)}
        for name in self.crew.names:
            kind = name.partition("-")[0]
            found[kind] = found.get(kind, 0.0) + cpu(self.crew[name].pid)
        return found

    def look(self) -> None:
        threading.Event().wait(_LOOK)
        assert not self.crew.replace_ended(), "a process ended by itself"

    def pids(self) -> Sequence[int]:
        return [self.cloud.pid, *(self.crew[name].pid for name in self.crew.names)]

    def wait_for_events(self, done: Callable[[list[tuple[str, Event]]], bool]) -> None:
        """Until the processes' log lines say so."""
        said: list[tuple[str, Event]] = []
        deadline = time.monotonic() + _READY
        while not done(said):
            assert time.monotonic() < deadline, "the processes are not ready"
            self.look()
            said += self.follower.new()


@contextmanager
def ours(
    cloud: LocalCloud,
    *,
    workers: int = 2,
    concurrency: int = 100,
    tickers: int = 1,
    period: float = 60.0,
    priorities: bool = False,
) -> Iterator[Ours]:
    """Tickers and workers over tables and queues of their own on ``cloud``; ready when it is handed over.

    ``period`` is that of the ticks, in seconds; the first has passed. ``priorities``: the queue has lanes.
    """
    with tempfile.TemporaryDirectory(prefix="quarterjack-bench-") as name:
        folder = Path(name)
        parts = [
            part
            if part.name.startswith("worker")
            else type(part)(part.name, (*part.arguments, "--period", str(period)))
            for part in roles(
                tickers=tickers, workers=workers, jobs=[jobs.__name__], concurrency=concurrency, history=False
            )
            if part.name != "undertaker"
        ]
        paths = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        with reached_by_this_process({"PYTHONPATH": paths, witness.FOLDER: name, **cloud.environment}):
            settings = fresh_settings(cloud, shards=SHARDS, priorities=DEFAULT_QUEUE if priorities else None)
            crew = ProcessGroup(parts, settings, cloud.environment, folder)
            follower = crew.follow()
            with crew:
                running = Ours(cloud, settings, crew, follower, folder)
                running.wait_for_events(lambda said: _ready(said, set(crew.names)))
                yield running


def _ready(said: list[tuple[str, Event]], names: set[str]) -> bool:
    return names <= {name for name, event in said if event["event"] in ("worker.started", "tick.done")}
