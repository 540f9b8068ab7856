"""Executor: the jobs of a batch in threads, watched. No job waits for another's end, and no outcome for a slow job.

    the batch's thread   the watch: limits, and hands over the ends: LINGER after the first, or when it is all
    a thread             job ─► job ─► …            one at first
    further threads             job ─► …            where jobs have not begun after SOON: 1, 2, 4 …

A thread cannot be killed: at its timeout, after its cancel grace or with its lease lost it is abandoned, its fence is gone, and the
process is marked for recycling. A job in a process of its own watches its limits itself.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Unpack

from quarterjack.concurrency.pools import Arguments
from quarterjack.domain.policies import Isolation
from quarterjack.worker.ahead import begin
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.execution.perform import limit_of, log_start, perform, timeout_of
from quarterjack.worker.stages import Abandoned, AttemptResult, EndedRun, LeasedRun

log = logging.getLogger(__name__)

LINGER = 0.02  # seconds that an outcome waits for others to be settled with
SOON = 0.001  # seconds in which a thread ends a job, or others get threads of their own: jobs that end at once need but one
SHORTAGE = 0.25  # seconds until a thread is asked for again after none could be had


class ThreadedExecutor:
    """Jobs at the same time."""

    def run(self, worker: WorkerContext, leased: Sequence[LeasedRun]) -> Iterator[Sequence[EndedRun]]:
        watch = _Watch(worker, leased)
        worker.threads.start("job", watch.serve)
        yield from watch.ends()

    def start(self, worker: WorkerContext, body: Callable[[Unpack[Arguments]], object], *arguments: *Arguments) -> None:
        worker.threads.start("batch", body, *arguments)


def unbegun(worker: WorkerContext, leased: LeasedRun) -> AttemptResult | None:
    """Why the job is not called after all; None: it begins now."""
    if leased.in_flight.lost:
        return Abandoned()
    if not leased.ahead:
        return None
    too_late = begin(worker, leased)
    if too_late is None:
        log_start(leased)
        worker.started([leased])
    return too_late


class _Watch:
    """Watches the jobs of a batch."""

    def __init__(self, worker: WorkerContext, leased: Sequence[LeasedRun]) -> None:
        self._worker = worker
        self._running = list(leased)
        self._to_begin = deque((each, contextvars.copy_context()) for each in leased)
        self._at_work = len(leased)  # jobs that have not ended
        self._wants_first = False  # whether to be woken by the next end, or only by the last
        self._changed = threading.Condition()
        for each in leased:
            each.in_flight.changed = self._changed
        self._timeouts = {  # of those that do not watch themselves
            each: timeout_of(worker, each)
            for each in leased
            if worker.isolated is None or each.policies.isolation is not Isolation.PROCESS
        }

    def serve(self) -> None:
        """One job after the other, each in a copy of the batch's context: nothing of one is there for the next."""
        while self._to_begin:
            try:
                leased, context = self._to_begin.popleft()
            except IndexError:  # another thread took the last one
                return
            threading.current_thread().name = f"job {leased.run.ref}"
            context.run(self._attempt, leased)

    def _attempt(self, leased: LeasedRun) -> None:
        result = unbegun(self._worker, leased) or perform(self._worker, leased)
        with self._changed:
            leased.results.append(result)
            self._at_work -= 1
            if self._wants_first or not self._at_work:
                self._wants_first = False
                self._changed.notify_all()

    def ends(self) -> Iterator[Sequence[EndedRun]]:
        """The runs whose jobs have ended, by themselves or by a limit, some at a time, until all have."""
        self._get_help()
        while self._running:
            ended = self._wait()
            for leased, _ in ended:
                self._running.remove(leased)
                if not leased.results:
                    self._worker.abandoned.set()
                    log.error("job.abandoned", extra={"run_id": str(leased.run.ref), "job": leased.job.name})
            yield ended

    def _get_help(self) -> None:
        """Twice as many threads, again and again, where no job has ended for SOON and some have not begun."""
        self._wait_while_they_get_on(SOON)
        more = 1
        while self._to_begin:
            try:
                for _ in range(min(more, len(self._to_begin))):
                    self._worker.threads.start("jobs", self.serve)
            except Exception:  # no more can be had now; to give up would leave behind what has begun
                log.exception("work.no_thread")
                self._wait_while_they_get_on(SHORTAGE)
            else:
                self._wait_while_they_get_on(SOON)
                more *= 2

    def _wait_while_they_get_on(self, patience: float) -> None:
        with self._changed:
            before = self._at_work + 1
            while self._to_begin and self._at_work < before:
                before = self._at_work
                self._changed.wait_for(lambda: not self._at_work, timeout=patience)

    def _wait(self) -> list[EndedRun]:
        lingered = False
        with self._changed:
            while True:
                ended, limit = self._look()
                if lingered or len(ended) == len(self._running):
                    return ended
                self._wants_first = not ended
                self._changed.wait(LINGER if ended else limit)
                lingered = bool(ended)

    def _look(self) -> tuple[list[EndedRun], float | None]:
        """What has ended by itself or by a limit; and the seconds until the next limit of the others, if any."""
        ended: list[EndedRun] = []
        limits = []
        for leased in self._running:
            result = self._result_of(leased)
            if result is None or isinstance(result, float):
                limits.append(result)
            else:
                ended.append((leased, result))
        return ended, min((limit for limit in limits if limit is not None), default=None)

    def _result_of(self, leased: LeasedRun) -> AttemptResult | float | None:
        if leased.results:
            return leased.results[0]
        if leased not in self._timeouts:
            return None
        if leased.in_flight.lost:
            return Abandoned()
        return limit_of(leased, self._timeouts[leased], self._worker.clock())
