"""A worker over services in memory whose jobs run in real threads, on a clock that can be put forward."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from quarterjack import Run
from quarterjack.worker.context import Done
from quarterjack.worker.delivery.receive import receive
from quarterjack.worker.delivery.visibility import HIDDEN
from quarterjack.worker.execution.executor import ThreadedExecutor
from quarterjack.worker.pipeline import run_batch
from quarterjack.worker.stages import Outcome

from tests.support.scenes.world import World

PATIENCE = 10.0  # seconds that a test waits for a thread


@dataclass
class Threads:
    """``start`` runs one attempt in a thread; the job says ``began`` and waits for ``go_on``."""

    world: World = field(default_factory=World)
    began: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)  # set by a job when its thread is at its end

    def __post_init__(self) -> None:
        self.worker = replace(self.world.worker(), executor=ThreadedExecutor(), report=self._report)
        self.outcomes: list[Outcome] = []
        self._reported = threading.Event()

    def start(self, job: str, payload: Any = None, **options: Any) -> Run:
        run = self.world.scheduler.submit(job, payload, **options)
        threading.Thread(target=self._work, daemon=True).start()
        assert self.began.wait(PATIENCE)
        return run

    def _work(self) -> None:
        deliveries = self.world.services.work.receive(most=1, wait=0, visibility=HIDDEN)
        run_batch(self.worker, receive(self.worker, deliveries))

    def _report(self, done: Sequence[Done]) -> None:
        self.outcomes += [outcome for _, outcome in done]
        self._reported.set()

    def skip(self, seconds: float) -> None:
        """Put the clock forward, and let whoever waits look at it."""
        self.world.wait(seconds)
        for ticket in self.worker.heartbeat.all():
            with ticket.changed:
                ticket.changed.notify_all()

    def beat(self) -> None:
        self.worker.heartbeat.beat(self.world.clock())

    def end(self) -> Outcome:
        """What came of the attempt; its job may still be at it."""
        assert self._reported.wait(PATIENCE)
        return self.outcomes[0]

    def release(self) -> None:
        """Let the job go on to its end."""
        self.go_on.set()
        assert self.over.wait(PATIENCE)

    @property
    def abandoned(self) -> bool:
        return self.worker.abandoned.is_set()

    def look(self, run: Run) -> Run:
        return self.world.scheduler.get_run(run.id)
