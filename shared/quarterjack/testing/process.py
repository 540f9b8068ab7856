"""Processes in memory: a worker whose clock, waits and dice are given, run batch by batch in the caller's thread."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Unpack

from quarterjack.concurrency.pools import Arguments
from quarterjack.domain.policies import Priority
from quarterjack.errors import QuarterjackError
from quarterjack.logs import RunFields
from quarterjack.ports.queues import RawMessage
from quarterjack.ports.services import Clock, Services
from quarterjack.undertaker.bury import bury_one
from quarterjack.values import replace
from quarterjack.worker.context import Done, KnownJobs, WorkerContext
from quarterjack.worker.delivery.receive import partition_batch, receive
from quarterjack.worker.delivery.visibility import HIDDEN, DeleteBuffer, Heartbeat
from quarterjack.worker.execution.effects import Effects
from quarterjack.worker.execution.executor import unbegun
from quarterjack.worker.execution.perform import call, job_context, limit_of, timeout_of
from quarterjack.worker.execution.run_store import RunStore
from quarterjack.worker.pipeline import run_batch
from quarterjack.worker.spans import job_span
from quarterjack.worker.stages import (
    Abandoned,
    AnyMessage,
    AttemptResult,
    Cancelled,
    EndedRun,
    Failed,
    LeasedRun,
    Outcome,
)

log = logging.getLogger(__name__)

Wait = Callable[[float], object]  # seconds


def make_worker(
    services: Services,
    jobs: KnownJobs,
    clock: Clock,
    *,
    wait: Wait,
    chance: random.Random | None = None,
    name: str = "worker",
) -> WorkerContext:
    """A worker over one process's services; jobs run in the thread that calls it.

    Nothing beats for it: call ``worker.heartbeat.beat`` where time passes.
    """
    return WorkerContext(
        services=services,
        clock=clock,
        heartbeat=Heartbeat(services),
        deletions=DeleteBuffer(services.work),
        jobs=jobs,
        executor=InTurn(),
        wait=wait,
        random=chance or random.Random(name),
        name=name,
    )


class InTurn:
    """KnownJobs in this thread, one after the other; their ends are settled together."""

    def run(self, worker: WorkerContext, leased: Sequence[LeasedRun]) -> Iterator[Sequence[EndedRun]]:
        yield [(each, self._attempt(worker, each)) for each in leased]

    def _attempt(self, worker: WorkerContext, leased: LeasedRun) -> AttemptResult:
        """One attempt. Its limits are applied when it returns: a job's own code cannot be interrupted here."""
        result = unbegun(worker, leased)
        if result is not None:
            return result
        timeout_at = timeout_of(worker, leased)
        effects = Effects(leased, RunStore(worker, leased))
        with RunFields(**leased.ids), job_span(leased) as tell:
            result = tell(call(leased, job_context(leased, effects, worker.remaining), worker.jobs.around))
        limit = limit_of(leased, timeout_at, worker.clock())
        if leased.in_flight.lost:
            return Abandoned()
        return limit if isinstance(limit, (Failed, Cancelled)) else result

    def start(self, worker: WorkerContext, body: Callable[[Unpack[Arguments]], object], *arguments: *Arguments) -> None:
        del worker
        body(*arguments)


def work_off(worker: WorkerContext, received: Sequence[AnyMessage], *, together: bool = False) -> list[Outcome]:
    """Work received messages off in this thread, in batches or one after the other; what became of each."""
    return [outcome for _, outcome in _finish(worker, received, together=together)]


def _finish(worker: WorkerContext, received: Sequence[AnyMessage], *, together: bool) -> list[Done]:
    finished: list[Done] = []
    changed = threading.Condition()

    def report(done: Sequence[Done]) -> None:
        with changed:
            finished.extend(done)
            changed.notify_all()

    worker = replace(worker, report=report)
    batches: Sequence[Sequence[AnyMessage]] = [[each] for each in received]
    for batch in partition_batch(worker, received) if together else batches:
        run_batch(worker, batch)
    with changed:
        changed.wait_for(lambda: len(finished) == len(received))
    return finished


@dataclass(frozen=True, kw_only=True)
class Hand:
    """A worker that takes the visible messages and works them off, one after the other.

    ``together``: the messages of a batch share their requests, as in production.
    """

    worker: WorkerContext
    together: bool = False
    early: Callable[[RawMessage], int] = field(default=lambda message: 0)  # seconds to hide a message; 0: process it

    def work(self, *, most: int = 10) -> list[Outcome]:
        """Receive once as each poller of each lane, the most urgent first, and process what came."""
        return [outcome for _, outcome in self.finish(most=most)]

    def finish(self, *, most: int = 10) -> list[Done]:
        """As ``work``: the messages, with what became of each."""
        work = self.worker.services.work
        places = [(lane, poller) for lane in work.lanes for poller in range(work.width)]
        return [each for lane, poller in places for each in self._finish(lane, poller, most)]

    def _finish(self, lane: Priority, poller: int, most: int) -> list[Done]:
        queue = self.worker.services.work
        taken = []
        for delivery in queue.receive(
            most=most, wait=0, visibility=HIDDEN, lane=lane, poller=poller, pollers=queue.width
        ):
            seconds = self.early(delivery)
            if seconds:
                queue.hide([delivery.receipt], seconds)
            else:
                taken.append(delivery)
        return _finish(self.worker, receive(self.worker, taken), together=self.together)


def bury_all(services: Services, clock: Clock) -> int:
    """Run the undertaker once over the dead-letter queue, and return the number of letters. Letters that it cannot record stay."""
    letters = services.dead.receive(most=10, wait=0)
    for letter in letters:
        try:
            bury_one(letter, services, clock)
            services.dead.delete(letter.receipt)
        except QuarterjackError as problem:
            log.warning("undertaker.left", extra={"error": str(problem)})
    return len(letters)
