"""The catalogue of jobs as it is stored: a worker publishes its jobs, all others read it seldom. And which jobs a tenant may run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence

from quarterjack.concurrency.forks import HoldsLocks
from quarterjack.domain.job_catalogue import KEY, OWNER, REFRESH, RETRY, JobCatalogue, JobSet, PublishedJob, parse_set
from quarterjack.domain.message import GARBAGE
from quarterjack.domain.tenants.access import job_problem
from quarterjack.domain.times import MINUTE
from quarterjack.errors import QuarterjackError
from quarterjack.jobs import Registry
from quarterjack.ports.services import Clock, Services
from quarterjack.stores.records import Record

log = logging.getLogger(__name__)

_AGAIN = MINUTE  # between two readings of one process, at least
_MOST_REMOVED = 25  # rows that one publication takes back


class CataloguePublisher:
    """Publishes the jobs of one process: a read when it starts and once an hour, and a write if that found something to say."""

    def __init__(self, services: Services, collect: Callable[[int], Sequence[JobSet]]) -> None:
        """``collect(now)`` is called for each publication, in the caller's thread: it may read files."""
        self._services, self._collect = services, collect
        self._next = 0  # UTC ms

    def publish(self, now: int) -> None:
        """Write what is new, if it is time to look. Raises Unavailable, and then looks again in five minutes."""
        if now < self._next:
            return
        self._next = now + RETRY
        written = [self._publish(one, now) for one in self._collect(now)]
        if all(written):
            self._next = now + REFRESH

    def _publish(self, mine: JobSet, now: int) -> bool:
        """False: another worker was first, and its row is to be looked at again."""
        stored = self._services.records.read(OWNER, mine.key)
        present = None if stored is None else _parsed(stored, now)
        wanted = mine if present is None else mine.seen_again(present)
        if wanted is None:
            return True
        version = 1 if stored is None else stored.version + 1
        row = Record(owner=OWNER, key=mine.key, version=version, body=wanted.body(), expires=wanted.expires)
        written = self._services.records.write(row)
        if written and present is None:
            log.info("jobs.published", extra={"jobs": len(mine.jobs), "version": wanted.version})
            self._take_back(wanted, now)
        return written

    def _take_back(self, newest: JobSet, now: int) -> None:
        """Empty the rows of which the newest has all jobs: a worker may not delete, so they expire now."""
        removed = 0
        for stored in self._services.records.listed(OWNER, KEY):
            other = _parsed(stored, now)
            if other is None or stored.key == newest.key or not newest.supersedes(other):
                continue
            empty = Record(owner=OWNER, key=stored.key, version=stored.version + 1, body={}, expires=now)
            self._services.records.write(empty)
            removed += 1
            if removed == _MOST_REMOVED:
                return


def read_catalogue(services: Services, now: int) -> JobCatalogue:
    """What workers have published: one query, a page of it for some thousand jobs. Raises Unavailable, Misconfigured."""
    return JobCatalogue.of(_sets(services, now), now)


def _sets(services: Services, now: int) -> Iterator[JobSet]:
    for stored in services.records.listed(OWNER, KEY):
        found = _parsed(stored, now)
        if found is not None:
            yield found


def _parsed(stored: Record, now: int) -> JobSet | None:
    """None if it has expired, before DynamoDB has removed it, or cannot be read, which is logged."""
    if stored.expires is not None and stored.expires <= now:
        return None
    try:
        return parse_set(stored.body)
    except GARBAGE as problem:
        log.error("jobs.row_unreadable", extra={"key": stored.key, "error": str(problem)})
        return None


class KnownNames(HoldsLocks):
    """Which jobs workers know, for one process that submits and schedules: read at the first question that needs it.

    Whether a name is known is asked for no more once it was found; for others, and for what is published of a job, the catalogue is
    read again once a minute at most. So a new job, and a new schema, count a minute after their worker has published them.
    From any thread.
    """

    def __init__(self, services: Services, clock: Clock) -> None:
        self._services, self._clock = services, clock
        self._found = JobCatalogue()
        self._problem: QuarterjackError | None = None  # of the last reading
        super().__init__()

    def _make_locks(self) -> None:
        self._reading = threading.Lock()
        self._read_at: int | None = None  # UTC ms

    def of(self, job: str) -> JobCatalogue:
        """A catalogue that has the job, or is at most a minute old. Raises Unavailable, Misconfigured as the last reading did."""
        if job not in self._found.entries:
            self._refresh()
        if self._problem is not None and not self._found:
            raise self._problem
        return self._found

    def published(self, job: str, *, fresh: bool = True) -> PublishedJob | None:
        """What workers publish of a job; None: nothing, or that cannot be read.

        ``fresh``: as of a minute ago at most, unless the catalogue cannot be read now; otherwise as of whenever the job was found.
        """
        if fresh or job not in self._found.entries:
            self._refresh()
        entry = self._found.entries.get(job)
        return None if entry is None else entry.job

    def _refresh(self) -> None:
        with self._reading:
            now = self._clock()
            if self._read_at is not None and 0 <= now - self._read_at < _AGAIN:
                return
            self._read_at = now
            try:
                self._found, self._problem = read_catalogue(self._services, now), None
            except QuarterjackError as problem:
                self._problem = problem


class JobGrants:
    """Which jobs a tenant may run, for one process that submits and schedules. The worker asks again, and decides.

    Whether a job goes by its full name alone, its own registry or the catalogue says; of a job that neither knows, only the worker can
    tell.
    """

    def __init__(self, services: Services, clock: Clock, jobs: Registry, known: KnownNames) -> None:
        self._services, self._clock, self._jobs, self._known = services, clock, jobs, known

    def problem(self, tenant: str, job: str) -> str | None:
        """Why the tenant may not run a job; None: it may. Raises Unavailable. A profile is read once in five seconds."""
        governance = self._services.tenants.governance(tenant, self._clock())
        if job_problem(governance, job, by_name=True) is None:
            return None  # by its name, or because nothing is limited: that is so for any job
        by_pattern = job_problem(governance, job, by_name=False) is None
        return job_problem(governance, job, by_name=by_pattern and self._goes_by_name(job))

    def _goes_by_name(self, job: str) -> bool:
        own = self._jobs.get(job)
        if own is not None:
            return own.by_name
        try:
            entry = self._known.of(job).entries.get(job)
        except QuarterjackError:  # a role that may not read the catalogue may submit
            return False
        return entry is not None and entry.job.by_name
