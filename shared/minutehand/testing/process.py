"""Processes in memory: a worker with a given clock, waits and random numbers, run message by message in the calling thread."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from minutehand.domain.job import Context
from minutehand.domain.times import SECOND
from minutehand.errors import MinutehandError
from minutehand.flow.assignment import Abandoned, Assignment, Cancelled, Ended, Failed
from minutehand.flow.desk import Desk
from minutehand.flow.erase import Eraser
from minutehand.flow.heartbeat import HIDDEN, Heartbeat
from minutehand.flow.outcome import Outcome
from minutehand.flow.perform import call, limit_of
from minutehand.flow.side_by_side import Attempt, Ends
from minutehand.flow.together import groups, work_together
from minutehand.flow.work import Jobs, Worker
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.ports.work_queue import RawMessage
from minutehand.undertaker.bury import bury_one

log = logging.getLogger(__name__)

Wait = Callable[[float], object]  # seconds


def make_worker(
    services: Services,
    jobs: Jobs,
    clock: Clock,
    *,
    wait: Wait,
    chance: random.Random | None = None,
    name: str = "worker",
) -> Worker:
    """A worker over one process's services. Jobs run in the calling thread.

    No thread sends its heartbeats: call ``worker.desk.heartbeat.beat`` when time passes.
    """
    desk = Desk(
        services=services,
        clock=clock,
        heartbeat=Heartbeat(services),
        eraser=Eraser(services.work),
        wait=wait,
        random=chance or random.Random(name),
        name=name,
    )
    return Worker(desk=desk, jobs=jobs, execute=in_this_thread, crew=InTurn())


def in_this_thread(assignment: Assignment, context: Context, payload: str | None) -> Ended:
    """One attempt. Its time limits are applied when the job returns: it cannot be interrupted here."""
    timeout, clock = assignment.policies.timeout, assignment.desk.clock
    timeout_at = None if timeout is None else clock() + int(timeout * SECOND)
    ended = call(assignment, context, payload)
    limit = limit_of(assignment, timeout_at, clock)
    if assignment.ticket.lost:
        return Abandoned()
    return limit if isinstance(limit, (Failed, Cancelled)) else ended


class InTurn:
    """Runs attempts in this thread, one after the other, and hands their results over together."""

    def run(self, attempts: Sequence[Attempt], changed: threading.Condition) -> Iterator[Ends]:
        del changed
        if attempts:
            yield [(each, self._run(each)) for each in attempts]

    def _run(self, attempt: Attempt) -> Ended:
        return attempt.begin() or in_this_thread(attempt.assignment, attempt.context, attempt.payload)

    def aside(self, desk: Desk, body: Callable[[], object]) -> None:
        del desk
        body()


@dataclass(frozen=True, kw_only=True)
class Hand:
    """Lets a worker process the visible messages, one after the other.

    ``together``: the messages of a batch share their requests, as in production.
    """

    worker: Worker
    together: bool = False
    early: Callable[[RawMessage], int] = field(default=lambda message: 0)  # seconds to hide a message; 0: process it

    def work(self, *, most: int = 10) -> list[Outcome]:
        """Receive once from each stripe and process the messages."""
        return [
            outcome for stripe in range(self.worker.desk.services.work.stripes) for outcome in self._work(stripe, most)
        ]

    def _work(self, stripe: int, most: int) -> list[Outcome]:
        queue = self.worker.desk.services.work
        taken = []
        for delivery in queue.receive(most=most, wait=0, visibility=HIDDEN, stripe=stripe):
            seconds = self.early(delivery)
            if seconds:
                queue.hide([delivery.receipt], seconds)
            else:
                taken.append(delivery)
        tasks = self.worker.take(taken)
        if not self.together:
            return [self.worker.process(task) for task in tasks]
        outcomes: list[Outcome] = []
        for group in groups(self.worker, tasks):
            work_together(self.worker, group, lambda done: outcomes.extend(outcome for _, outcome in done))
        return outcomes


def bury_all(services: Services, clock: Clock) -> int:
    """Run the undertaker once over the dead-letter queue, and return the number of letters. Those that it cannot record stay."""
    letters = services.dead.receive(most=10, wait=0)
    for letter in letters:
        try:
            bury_one(letter, services, clock)
            services.dead.delete(letter.receipt)
        except MinutehandError as problem:
            log.warning("undertaker.left", extra={"error": str(problem)})
    return len(letters)
