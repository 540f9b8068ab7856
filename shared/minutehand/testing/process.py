"""Processes in memory: a worker whose clock, waits and dice are given, run message by message in the caller's thread."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from minutehand.errors import MinutehandError
from minutehand.flow.assignment import Abandoned, Assignment, Cancelled, Ended, Failed
from minutehand.flow.bury import bury_one
from minutehand.flow.desk import Desk
from minutehand.flow.erase import Eraser
from minutehand.flow.heartbeat import HIDDEN, Heartbeat
from minutehand.flow.outcome import Outcome
from minutehand.flow.perform import call, limit_of
from minutehand.flow.ports import Clock, Delivery, Services
from minutehand.flow.work import Jobs, Worker
from minutehand.model.job import Context
from minutehand.model.moment import SECOND

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
    """A worker over one process's services; jobs run in the thread that calls it.

    Nothing beats for it: call ``worker.desk.heartbeat.beat`` where time passes.
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
    return Worker(desk=desk, jobs=jobs, execute=in_this_thread)


def in_this_thread(assignment: Assignment, context: Context, payload: str | None) -> Ended:
    """One attempt. Its limits are applied when it returns: a job's own code cannot be interrupted here."""
    timeout, clock = assignment.policies.timeout, assignment.desk.clock
    timeout_at = None if timeout is None else clock() + int(timeout * SECOND)
    ended = call(assignment, context, payload)
    limit = limit_of(assignment, timeout_at, clock)
    if assignment.ticket.lost:
        return Abandoned()
    return limit if isinstance(limit, (Failed, Cancelled)) else ended


@dataclass(frozen=True, kw_only=True)
class Hand:
    """A worker that takes what is visible and works it off, one message after the other."""

    worker: Worker
    early: Callable[[Delivery], int] = field(
        default=lambda delivery: 0
    )  # seconds to put a delivery back for; 0: work on it

    def work(self, *, most: int = 10) -> list[Outcome]:
        """Receive once and process what came."""
        queue = self.worker.desk.services.work
        taken = []
        for delivery in queue.receive(most=most, wait=0, visibility=HIDDEN):
            seconds = self.early(delivery)
            if seconds:
                queue.hide([delivery.receipt], seconds)
            else:
                taken.append(delivery)
        return [self.worker.process(task) for task in self.worker.take(taken)]


def bury_all(services: Services, clock: Clock) -> int:
    """The undertaker, once: bury what lies in the dead-letter queue; how many letters. One that cannot be recorded stays."""
    letters = services.dead.receive(most=10, wait=0)
    for letter in letters:
        try:
            bury_one(letter, services, clock)
            services.dead.delete(letter.receipt)
        except MinutehandError as problem:
            log.warning("undertaker.left", extra={"error": str(problem)})
    return len(letters)
