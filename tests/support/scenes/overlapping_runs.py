"""A schedule whose runs take longer than the time between them, and as many workers as there are messages."""

from __future__ import annotations

from collections import Counter
from typing import Any

from quarterjack import Context
from quarterjack.domain.run import RunState
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.state.lease import HEARTBEAT
from quarterjack.testing import Hook
from quarterjack.testing.process import Hand, bury_all
from quarterjack.worker.context import WorkerContext

from tests.support.scenes.world import NOON, OWNER, World


class OverlappingRuns:
    """Each run takes ``seconds``, during which time passes, heartbeats beat, tickers tick and other workers work."""

    def __init__(
        self, seconds: float = 25, *, expression: str = "rate(10 seconds)", job: str = "note", **options: Any
    ) -> None:
        self.world, self.seconds = World(), seconds
        self.world.scheduler.create_schedule("s", job, expression, **options)
        self.world.during = self._during
        self.hook = Hook()  # of every worker that comes
        self.most = 0  # runs with a live lease at the same time
        self._workers: list[WorkerContext] = []
        self._beaten = self._end = 0  # UTC ms

    def _during(self, ctx: Context) -> None:
        self.most = max(self.most, sum(run.state is RunState.RUNNING for run in self.world.memory.runs(OWNER)))
        end = self.world.clock() + int(self.seconds * SECOND)
        while self.world.clock() < end:
            ctx.raise_if_cancelled()
            self.second()

    def second(self) -> None:
        """One second of everybody's work."""
        if (self.world.clock() - NOON) % MINUTE == 0:
            self.world.tick()
        if self.world.clock() >= self._beaten + HEARTBEAT:
            self._beaten = self.world.clock()
            for worker in self._workers:
                worker.heartbeat.beat(self.world.clock())
        while self.world.clock() < self._end and self.work():
            pass
        bury_all(self.world.services, self.world.clock)
        self.world.wait(1)

    def work(self) -> int:
        """A worker takes one message; how many there were."""
        worker = self.world.worker(self.hook)
        self._workers.append(worker)
        try:
            return len(Hand(worker=worker).work(most=1))
        finally:
            self._workers.remove(worker)

    def until(self, second: int) -> OverlappingRuns:
        """Up to that many seconds after NOON, or to the end of what runs then; no worker comes later."""
        self._end = NOON + second * SECOND
        while self.world.clock() < self._end:
            self.second()
        return self

    def stop(self) -> OverlappingRuns:
        """No further fire; what is under way or waits comes to its end."""
        self.world.scheduler.update_schedule("s", expression="0 0 1 1 *")
        return self

    # What there is.

    def states(self) -> dict[int, str]:
        """State by the second of each fire."""
        return {(run.due - NOON) // SECOND: str(run.state) for run in self.world.memory.runs(OWNER) if run.ref.is_fire}

    def counts(self) -> Counter[str]:
        return Counter(self.states().values())

    def began(self) -> dict[int, int]:
        """When each run began, in seconds after NOON by the second of its fire, in order of beginning."""
        return {
            due: (start.at - NOON) // SECOND for due, start in zip(self.world.began(), self.world.started, strict=True)
        }

    def reason(self, second: int) -> str:
        return self.world.run(second).reason or ""
