"""A world with two declared queues, and a worker for each."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from quarterjack import Context, Retry
from quarterjack.errors import RetryAfter
from quarterjack.testing import Hook
from quarterjack.testing.process import Hand, make_worker
from quarterjack.worker.stages import Outcome

from tests.support.scenes.world import World


@dataclass
class QueueWorld(World):
    """Jobs say which worker ran them."""

    ran: list[tuple[str | None, str]] = field(default_factory=list)  # queue of the worker, id of the run

    def __post_init__(self) -> None:
        super().__post_init__()
        self.jobs.queue("reports", concurrency=4)
        self.jobs.queue("mail")
        for name in ("reports", "mail"):
            self.memory.add_queue(name)
        self.jobs.job("report", queue="reports", retry=Retry(max_attempts=3))(self._report)
        self.failures = 0  # attempts of "report" that fail
        self._serving: str | None = None

    def note(self, ctx: Context, payload: object) -> None:
        self.ran.append((self._serving, ctx.run_id))
        super().note(ctx, payload)

    def _report(self, ctx: Context, payload: object) -> None:
        self.note(ctx, payload)
        if ctx.attempt <= self.failures:
            raise RetryAfter(20 if ctx.attempt == 1 else 1200)

    def serve(self, queue: str | None, hook: Hook | None = None) -> list[Outcome]:
        """A worker of this queue works off what is visible now."""
        self._serving = queue
        worker = make_worker(
            self.memory.connect(hook, queue=queue),
            self.jobs,
            self.clock,
            wait=self.wait,
            chance=random.Random(next(self._seeds)),
        )
        done = list[Outcome]()
        while outcomes := Hand(worker=worker).work():
            done += outcomes
        return done

    def lengths(self) -> dict[str | None, int]:
        """Messages in each queue that has any."""
        return {name: len(queue) for name, queue in self.memory.queues.items() if len(queue)}
