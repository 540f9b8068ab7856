"""A worker over services in memory whose jobs run in real threads, on a clock that can be put forward."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Any

from minutehand import Run
from minutehand.flow.heartbeat import HIDDEN
from minutehand.flow.outcome import Outcome
from minutehand.flow.perform import perform

from tests.unit.flow.world import World

PATIENCE = 10.0  # seconds that a test waits for a thread


@dataclass
class Threads:
    """``start`` runs one attempt in a thread; the job says ``began`` and waits for ``go_on``."""

    world: World = field(default_factory=World)
    began: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)  # set by a job when its thread is at its end

    def __post_init__(self) -> None:
        self.worker = replace(self.world.worker(), execute=perform)
        self.outcomes: list[Outcome] = []

    def start(self, job: str, payload: Any = None, **options: Any) -> Run:
        run = self.world.scheduler.submit(job, payload, **options)
        self._thread = threading.Thread(target=self._process, daemon=True)
        self._thread.start()
        assert self.began.wait(PATIENCE)
        return run

    def _process(self) -> None:
        (delivery,) = self.world.services.work.receive(most=1, wait=0, visibility=HIDDEN)
        (task,) = self.worker.take([delivery])
        self.outcomes.append(self.worker.process(task))

    def skip(self, seconds: float) -> None:
        """Put the clock forward, and let whoever waits look at it."""
        self.world.wait(seconds)
        for ticket in self.worker.desk.heartbeat.at_hand():
            with ticket.changed:
                ticket.changed.notify_all()

    def beat(self) -> None:
        self.worker.desk.heartbeat.beat(self.world.clock())

    def end(self) -> Outcome:
        """What came of the attempt; its job may still be at it."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.outcomes[0]

    def release(self) -> None:
        """Let the job go on to its end."""
        self.go_on.set()
        assert self.over.wait(PATIENCE)

    @property
    def abandoned(self) -> bool:
        return self.worker.desk.abandoned.is_set()

    def look(self, run: Run) -> Run:
        return self.world.scheduler.get_run(run.id)
