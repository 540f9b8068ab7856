"""The shell of a worker, in a process and in a Lambda function: heartbeat, delete buffer, the start and the end of its batches."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress

from quarterjack.concurrency.pools import ThreadCache
from quarterjack.daemon.worker_record import RecordKeeper
from quarterjack.domain.times import SECOND
from quarterjack.errors import Misconfigured, Unavailable
from quarterjack.jobs import Registry
from quarterjack.ports.queues import RawMessage
from quarterjack.ports.services import Services
from quarterjack.services import system_clock
from quarterjack.state.lease import HEARTBEAT
from quarterjack.state.worker_record import WATCH
from quarterjack.worker.breakers import BreakerBook
from quarterjack.worker.context import Done, Execute, KnownJobs, WorkerContext
from quarterjack.worker.delivery.receive import receive
from quarterjack.worker.delivery.visibility import DeleteBuffer, Heartbeat
from quarterjack.worker.execution.executor import ThreadedExecutor
from quarterjack.worker.execution.settle import release_run
from quarterjack.worker.pipeline import start_batches
from quarterjack.worker.stages import LeasedRun
from quarterjack.worker.versions import OwnVersion

log = logging.getLogger(__name__)


class WorkerShell:
    """A worker over one process's services. ``report`` is called with what is done, from any thread, each message once."""

    def __init__(
        self,
        services: Services,
        jobs: KnownJobs,
        *,
        name: str,
        around: Callable[[Mapping[str, str]], AbstractContextManager[object]],
        remaining: Callable[[], float | None],
        report: Callable[[Sequence[Done]], None],
        started: Callable[[Sequence[LeasedRun]], None] = lambda leased: None,
        isolated: Execute | None = None,
        threads: ThreadCache | None = None,
        keeper: RecordKeeper | None = None,
        breakers: BreakerBook | None = None,
        own_version: OwnVersion | None = None,
    ) -> None:
        """``keeper`` keeps the worker's record; None: nobody does."""
        self._report, self._keeper = report, keeper
        self._ended = threading.Event()
        self._changed = threading.Condition()
        self._busy = 0  # messages that were taken and not reported yet
        self.worker = WorkerContext(
            services=services,
            clock=system_clock,
            heartbeat=Heartbeat(services),
            deletions=DeleteBuffer(services.work),
            jobs=jobs,
            executor=ThreadedExecutor(),
            wait=threading.Event().wait,
            random=random.Random(),
            name=name,
            report=self._done,
            started=started,
            around=around,
            remaining=remaining,
            isolated=isolated,
            threads=threads or ThreadCache(),
            breakers=breakers or BreakerBook(),
            own_version=own_version or OwnVersion(),
        )

    def start(self) -> None:
        """Heartbeats and deletions from now on; the worker's record is written beside them.

        Raises Misconfigured if the tables were restored and are not reconciled: no run of them may start.
        """
        with suppress(Unavailable):
            self.worker.services.agenda.layout()
        self.worker.threads.start("heartbeat", self._beat)
        self.worker.threads.start("deletions", self.worker.deletions.serve, self._ended)
        if self._keeper is not None:
            self._keeper.begin(self.worker.heartbeat, name=self.worker.name)

    def work(self, deliveries: Sequence[RawMessage]) -> bool:
        """Take deliveries in hand and start them. False if threads were short: some are reported as kept already."""
        received = receive(self.worker, deliveries)
        with self._changed:
            self._busy += len(received)
        return start_batches(self.worker, received)

    def _done(self, done: Sequence[Done]) -> None:
        self._report(done)
        with self._changed:
            self._busy -= len(done)
            if self._keeper is not None:
                self._keeper.count(done)
            self._changed.notify_all()

    def at_hand(self) -> int:
        """Messages that were taken and are not reported yet."""
        with self._changed:
            return self._busy

    def wait(self, seconds: float | None = None) -> int:
        """Wait until every message is reported, or so long; how many are not."""
        with self._changed:
            self._changed.wait_for(lambda: self._busy == 0, timeout=seconds)
            return self._busy

    def release_all(self) -> int:
        """Give back all runs that this process will not finish; how many."""
        released = 0
        for in_flight in self.worker.heartbeat.all():
            ids = {"run_id": str(in_flight.ref), "tenant": in_flight.ref.tenant}
            try:
                if release_run(self.worker, in_flight):
                    released += 1
                    log.info("run.released", extra=ids)
            except Unavailable as problem:  # then its lease runs out
                log.warning("worker.not_released", extra=ids | {"error": str(problem)})
        return released

    def stop(self) -> None:
        """No heartbeat any more; what was to be deleted is deleted now."""
        self._ended.set()
        self.worker.deletions.stop()
        self.worker.breakers.flush(self.worker.services, system_clock())
        if self._keeper is not None:
            self._keeper.end()

    def _beat(self) -> None:
        looks, every = 0, max(HEARTBEAT // WATCH, 1)  # looks for each beat
        while not self._ended.wait(HEARTBEAT / every / SECOND):
            looks += 1
            try:
                if self._keeper is not None:
                    self._keeper.watch()
                if looks % every:
                    continue
                self.worker.heartbeat.beat(system_clock())
                self.worker.breakers.flush(self.worker.services, system_clock())
                if self._keeper is not None:
                    self._keeper.beat()
            except Exception:  # the next beat may succeed, and without beats every lease is lost
                log.exception("heartbeat.failed")


def tell_unusable_secrets(jobs: KnownJobs) -> int:
    """Log an error for each job with such a variable; how many there are. The others run, so the worker starts."""
    found = 0
    for job in jobs if isinstance(jobs, Registry) else ():
        check = getattr(job.function, "check_secrets", None)
        try:
            if check is not None:
                check()
        except Misconfigured as problem:
            found += 1
            log.error("worker.secret_unusable", extra={"job": job.name, "error": str(problem)})
    return found
