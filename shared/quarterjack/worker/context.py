"""What all steps of one worker process share; and the crash quarantine: a run whose worker crashed may crash the next one, so that
at most one such suspect executes per process.

    its worker vanished   why, mostly                          it has the quarantine
    never                 it is new, or its message merely     not at all
                          came back
    once                  its worker stopped or died, it and   BRIEF: a job that kills its process at once does so alone, and
                          all that it had begun                runs that were merely left behind are under way again in seconds
    more often            it may well be the one               to its end: no other run loses an attempt to it

A suspect takes its lease only within: a run whose neighbour kills the process before that has spent no attempt. Waiting makes no run
more suspect: attempts count, not deliveries.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, Unpack

from quarterjack.concurrency.pools import Arguments, ThreadCache
from quarterjack.domain.message import DeadLetter
from quarterjack.domain.run import Failure, RunRow
from quarterjack.domain.tenants.caller import role
from quarterjack.domain.times import SECOND
from quarterjack.fires.context import FireContext
from quarterjack.middlewares import Middleware
from quarterjack.owner.catalogue import KnownNames
from quarterjack.owner.job_terms import JobTerms, OwnJobs
from quarterjack.ports.services import Clock, Services
from quarterjack.worker.breakers import BreakerBook
from quarterjack.worker.delivery.visibility import DeleteBuffer, Heartbeat
from quarterjack.worker.permits import PermitPool
from quarterjack.worker.stages import AnyMessage, AttemptResult, EndedRun, LeasedRun, Outcome
from quarterjack.worker.versions import OwnVersion, VersionsSeen

BRIEF = 0.5  # seconds
PATIENCE = 25.0  # seconds that a suspect waits for the quarantine before its message goes back


class CrashQuarantine:
    """That of one process."""

    def __init__(self) -> None:
        self._taken = threading.Lock()
        self._within: object = None  # the suspect that has it
        self._lock = threading.Lock()  # of ``_within``

    def enter(self, suspect: object, crashes: int) -> bool:
        """Let a run in of which so many workers may have died; False if its message has to go back."""
        if not crashes:
            return True
        if not self._taken.acquire(timeout=PATIENCE):
            return False
        self._within = suspect
        if crashes == 1:
            timer = threading.Timer(BRIEF, lambda: self.leave(suspect))
            timer.daemon = True
            try:
                timer.start()
            except BaseException:  # no thread can be had: nobody else would end its stay
                self.leave(suspect)
                raise
        return True

    def leave(self, suspect: object) -> None:
        """End the stay of a run, if it is within."""
        if self._within is not suspect:
            return
        with self._lock:
            if self._within is suspect:
                self._within = None
                self._taken.release()


class Instants:
    """Runs that were leased ahead, by the instant that they wait for (``ahead``)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, list[LeasedRun]] = {}  # by the instant (UTC ms)

    def join(self, instant: int, leased: Sequence[LeasedRun]) -> bool:
        """True for the first that comes, who has to wait for the instant and take all of them then."""
        with self._lock:
            is_first = instant not in self._waiting
            self._waiting.setdefault(instant, []).extend(leased)
            return is_first

    def take(self, instant: int) -> list[LeasedRun]:
        """All that have joined; who comes later is a first one again."""
        with self._lock:
            return self._waiting.pop(instant)


class KnownJobs(OwnJobs, Protocol):
    """The jobs that this worker knows."""

    around: tuple[Middleware, ...]  # the middleware of all of them

    def name_of(self, function: object) -> str:
        """The name under which a function is registered as a job. Raises InvalidInput."""


class Executor(Protocol):
    """How the jobs of a batch run."""

    def run(self, worker: WorkerContext, leased: Sequence[LeasedRun]) -> Iterable[Sequence[EndedRun]]:
        """Run them all, one at least; those that have ended, some at a time."""

    def start(self, worker: WorkerContext, body: Callable[[Unpack[Arguments]], object], *arguments: *Arguments) -> None:
        """Call ``body`` with these arguments, without holding up the caller."""


Done = tuple[AnyMessage, Outcome]
Execute = Callable[["WorkerContext", LeasedRun], AttemptResult]


@dataclass(frozen=True, kw_only=True)
class WorkerContext:
    """One worker process."""

    services: Services
    clock: Clock
    heartbeat: Heartbeat
    deletions: DeleteBuffer
    jobs: KnownJobs
    executor: Executor
    name: str  # of this process, for attempts' rows
    wait: Callable[[float], object] = field(default_factory=lambda: threading.Event().wait)  # seconds; may end early
    random: random.Random = field(default_factory=random.Random)
    report: Callable[[Sequence[Done]], None] = lambda done: None  # what is done, from any thread, each message once
    started: Callable[[Sequence[LeasedRun]], None] = lambda leased: None  # attempts that begin, from any thread
    around: Callable[[Mapping[str, str]], AbstractContextManager[object]] = lambda ids: nullcontext()  # log keys
    remaining: Callable[[], float | None] = lambda: None  # seconds until the process's time limit
    isolated: Execute | None = None  # runs jobs with ``isolation="process"``; None: as all others
    threads: ThreadCache = field(default_factory=ThreadCache)  # that batches and jobs run in
    quarantine: CrashQuarantine = field(default_factory=CrashQuarantine)  # of runs whose worker vanished
    breakers: BreakerBook = field(default_factory=BreakerBook)  # of the tenants whose runs it starts
    own_version: OwnVersion = field(default_factory=OwnVersion)
    versions_seen: VersionsSeen = field(default_factory=VersionsSeen)  # of other workers
    instants: Instants = field(default_factory=Instants)  # that runs wait for which were leased ahead
    abandoned: threading.Event = field(default_factory=threading.Event)  # set when a job's thread was left running

    @cached_property
    def terms(self) -> JobTerms:
        """The terms of the jobs that its jobs submit."""
        return JobTerms(self.jobs, KnownNames(self.services, self.clock), self.services, self.clock)

    @property
    def permits(self) -> PermitPool:
        """Its permits of concurrency caps, which the heartbeat renews."""
        return self.heartbeat.permits

    @property
    def role(self) -> FireContext:
        """What it changes of other runs, because of what their owners did, is changed in the name of the worker's role."""
        return FireContext(services=self.services, clock=self.clock, caller=role("worker"))

    def expires(self, now: int) -> int:
        """When a run that ends now leaves the ledger (UTC ms)."""
        return now + self.services.retention

    def expires_with(self, run: RunRow) -> int:
        """When what lies beside a run that ends now leaves the ledger (UTC ms): with the run, whose end is not before its start."""
        return self.expires(run.end_time(self.clock()))

    def wait_until(self, instant: int) -> None:
        """Until its own clock says so (UTC ms)."""
        while (left := instant - self.clock()) > 0:
            self.wait(left / SECOND)

    def new_lease_token(self) -> str:
        """Random token stored with a lease, so that a worker whose answer was lost recognises its own: 16 hexadecimal digits."""
        return f"{self.random.getrandbits(64):016x}"

    def send_dead_letter(self, body: str, fence: int, reason: str, failure: Failure | None) -> None:
        """Send a verdict to the dead-letter queue."""
        said = {}
        if failure is not None:
            said = {"error_type": failure.kind, "error": failure.message, "traceback": failure.traceback}
        self.services.dead.send(DeadLetter(body=body, reason=reason, fence=fence, **said))
