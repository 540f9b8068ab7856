"""Keeps the record of a worker: one write in 20 s, in a thread of its own, beside the heartbeats and never on a run's path.

While runs begin that take more than two seconds, one write in 5 s: what runs is found by the records.

A process writes when it starts, every 20 s, and when it has left. A Lambda environment writes every 20 s while a batch goes on, and when
a batch is done and its messages are acknowledged, if its last record names runs or is five minutes old, or a message was of a job that
it does not know or of an application version without a worker. An idle one writes nothing.

Beside its record it publishes which jobs it knows (owner/catalogue.py), which is a read an hour, and a write if nobody else has made it;
and it registers its application version (owner/app_versions.py).
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial

from quarterjack.concurrency.pools import ThreadCache
from quarterjack.domain.job import Job
from quarterjack.domain.job_catalogue import JobSet, PublishedJob, sets_of
from quarterjack.errors import QuarterjackError
from quarterjack.job_packages import package_of, package_version
from quarterjack.jobs import Registry
from quarterjack.owner.app_versions import VersionRegistrar
from quarterjack.owner.catalogue import CataloguePublisher
from quarterjack.payload_types import payload_fit, payload_schema
from quarterjack.ports.services import Clock, Services
from quarterjack.state.worker_record import (
    KEY,
    NEWS,
    PERIOD,
    RESTING,
    SETTLED,
    GivenBack,
    JobNames,
    RunAtHand,
    WorkerIdentity,
    WorkerKind,
    WorkerRow,
    fitting,
    owner_of,
    record_body,
)
from quarterjack.stores.records import Record
from quarterjack.version import VERSION
from quarterjack.worker.admission.admit import UNKNOWN
from quarterjack.worker.admission.refused import NO_WORKER
from quarterjack.worker.context import Done, KnownJobs
from quarterjack.worker.delivery.visibility import Heartbeat
from quarterjack.worker.stages import ReceivedMessage

log = logging.getLogger(__name__)

_PATIENCE = 1.0  # seconds for which the end of a batch or of a process waits for a write that is under way


class RecordKeeper:
    """The record of one worker process or Lambda environment. Raises nothing: without its record a worker works as well."""

    def __init__(
        self,
        services: Services,
        kind: WorkerKind,
        identify: Callable[..., WorkerIdentity] | None,
        clock: Clock,
        catalogue: CataloguePublisher | None = None,
        registrar: VersionRegistrar | None = None,
    ) -> None:
        """``identify(now=…)`` is called once, in the thread of the first write: it may read files. None: there is no record."""
        self._services, self._kind, self._identify, self._clock = services, kind, identify, clock
        self._catalogue, self._registrar = catalogue, registrar
        self._identity: WorkerIdentity | None = None
        self._threads = ThreadCache()  # its own: a run never waits for it
        self._writing = threading.Lock()  # held while a write is under way
        self._written: WorkerRow | None = None  # the last one
        self._version = 0  # of the record as it is stored
        self._heartbeat: Heartbeat | None = None
        self._invocation: str | None = None
        self._handled = 0  # messages
        self._unknown, self._unserved = GivenBack(), GivenBack()  # of them

    def begin(self, heartbeat: Heartbeat, *, name: str) -> None:
        """The runs at hand are those of ``heartbeat`` from now on, in whose rows the worker has this name. A process writes at once."""
        self._heartbeat = heartbeat
        if self._kind is WorkerKind.PROCESS:
            self._write_beside(PERIOD)
        else:
            self._invocation = name

    def count(self, done: Sequence[Done]) -> None:
        """Messages that are done. One caller at a time."""
        self._handled += len(done)
        strange, unserved = list[str](), list[str]()
        for received, outcome in done:
            if outcome.why not in (UNKNOWN, NO_WORKER) or not isinstance(received, ReceivedMessage):
                continue
            spec, row = received.definition.spec, received.definition.row
            if outcome.why == UNKNOWN and spec is not None:
                strange.append(spec.job)
            elif row is not None and row.app_version is not None:
                unserved.append(row.app_version)
        now = self._clock()
        self._unknown, self._unserved = self._unknown.plus(strange, now), self._unserved.plus(unserved, now)

    def beat(self) -> None:
        """Write it, if 20 s are over since the last time."""
        self._write_beside(PERIOD)

    def watch(self) -> None:
        """Write it, if it lacks a run that has begun, and 5 s are over since the last time. Called every two seconds; reads nothing."""
        now, last = self._clock(), self._written
        settled = [run for run in self._at_hand() if now - run.started_at >= SETTLED]
        if settled and (last is None or last.lacks(settled)):
            self._write_beside(NEWS)

    def end(self) -> None:
        """The batch of a function is done, or a process has left, which it writes. A write gets a second, and then goes on by itself."""
        if self._kind is WorkerKind.FUNCTION:
            last = self._written
            back = (self._unknown, self._unserved)
            is_news = last is not None and (last.at_hand > 0 or (last.unknown, last.unserved) != back)
            self._write_beside(PERIOD if is_news else RESTING)
        if self._writing.acquire(timeout=_PATIENCE):
            try:
                if self._kind is WorkerKind.PROCESS:
                    self._write(stopped=True)
            finally:
                self._writing.release()

    def _write_beside(self, period: int) -> None:
        """Write it in another thread; not if ``period`` (ms) is not over, or the last write is still under way."""
        if self._written is not None and 0 <= self._clock() - self._written.seen_at < period:
            return
        if self._writing.acquire(blocking=False):
            try:
                self._threads.start("record", self._write_and_release)
            except Exception:  # no thread can be had
                self._writing.release()
                log.exception("worker.record_not_written")

    def _write_and_release(self) -> None:
        try:
            self._write()
        finally:
            self._writing.release()

    def _write(self, *, stopped: bool = False) -> None:
        if self._identify is not None:
            _guarded(partial(self._write_record, stopped=stopped), "worker.record_not_written")
        if self._catalogue is not None and not stopped:
            _guarded(partial(self._catalogue.publish, self._clock()), "jobs.not_published")
        if self._registrar is not None and not stopped:
            _guarded(partial(self._registrar.register, self._clock()), "version.not_registered")

    def _write_record(self, *, stopped: bool) -> None:
        row = self._row(stopped=stopped)
        self._written = row  # whether it is answered or not: it counts as one of its 20 s
        self._store(row)

    def _row(self, *, stopped: bool) -> WorkerRow:
        now, runs = self._clock(), self._at_hand()
        if self._identity is None:
            assert self._identify is not None
            self._identity = self._identify(now=now)
        return WorkerRow(
            identity=self._identity,
            seen_at=now,
            handled=self._handled,
            unknown=self._unknown,
            unserved=self._unserved,
            at_hand=len(runs),
            runs=fitting(runs),
            invocation=self._invocation,
            stopped_at=now if stopped else None,
        )

    def _at_hand(self) -> list[RunAtHand]:
        found = list[RunAtHand]()
        for in_flight in self._heartbeat.leased() if self._heartbeat is not None else ():
            lease = in_flight.lease
            if lease is not None and not in_flight.lost:
                run = lease.run
                found.append(
                    RunAtHand(
                        ref=run.ref,
                        job=run.job,
                        fence=run.fence,
                        started_at=run.leased_at or run.started_at or 0,
                        progress=in_flight.progress.fraction,
                        stage=in_flight.progress.stage,
                    )
                )
        return found

    def _store(self, row: WorkerRow) -> None:
        """Put the record over the one before. Only this process writes it, but an answer of it may have been lost."""
        name = row.identity.name
        owner, key = owner_of(name), KEY + name
        for _ in range(2):
            version, body = self._version + 1, record_body(row)
            written = Record(owner=owner, key=key, version=version, body=body, expires=row.expires)
            if self._services.records.write(written):
                self._version = version
                return
            present = self._services.records.read(owner, key)
            self._version = 0 if present is None else present.version


def _guarded(write: Callable[[], None], event: str) -> None:
    """Do it; what goes wrong is logged as ``event`` and stops nothing."""
    try:
        write()
    except QuarterjackError as problem:
        log.warning(event, extra={"error": str(problem)})
    except Exception:
        log.exception(event)


def catalogue_of(services: Services, jobs: KnownJobs) -> CataloguePublisher | None:
    """Publishes the jobs of this process; None if it cannot list them."""
    return CataloguePublisher(services, partial(job_sets, jobs)) if isinstance(jobs, Registry) else None


def job_sets(jobs: Registry, now: int) -> Sequence[JobSet]:
    """What a process with these jobs says in the catalogue."""
    return list(sets_of(map(_published, jobs), _package_version(jobs), now))


def _published(job: Job) -> PublishedJob:
    try:
        schema, fit = payload_schema(job), payload_fit(job)
    except Exception:  # it is the user's type
        log.exception("jobs.no_schema", extra={"job": job.name})
        schema, fit = None, None
    return PublishedJob.of(job, schema, fit)


def process_identity(
    name: str, jobs: KnownJobs, *, app_version: Callable[[], str], queue: str, concurrency: int, now: int
) -> WorkerIdentity:
    """What a worker process says of itself."""
    return WorkerIdentity(
        name=name,
        kind=WorkerKind.PROCESS,
        host=socket.gethostname(),
        version=VERSION,
        app_version=app_version() or None,
        queue=queue,
        concurrency=concurrency,
        jobs=_names(jobs),
        started_at=now,
    )


def function_identity(
    function: str, log_stream: str, jobs: KnownJobs, *, app_version: Callable[[], str], queue: str, now: int
) -> WorkerIdentity:
    """What an execution environment of a Lambda function says of itself: its log stream is its name."""
    return WorkerIdentity(
        name=log_stream,
        kind=WorkerKind.FUNCTION,
        host=function,
        version=VERSION,
        app_version=app_version() or None,
        queue=queue,
        jobs=_names(jobs),
        started_at=now,
    )


def _names(jobs: KnownJobs) -> JobNames:
    return JobNames.of(jobs.names()) if isinstance(jobs, Registry) else JobNames()


def _package_version(jobs: Registry) -> str | None:
    """The version of the package that most of the jobs are of, if it has one."""
    package = package_of(jobs)
    return None if package is None else package_version(package)
