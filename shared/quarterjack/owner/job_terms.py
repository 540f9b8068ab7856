"""What a run has of its job where its submitter says nothing: its queue, start and priority; and what its payload has to fit.

Of a job that this process has its registry says it, of another one the catalogue that workers publish.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from quarterjack.domain.job import Job, check_fit
from quarterjack.domain.job_catalogue import PublishedJob
from quarterjack.domain.message import GARBAGE
from quarterjack.domain.notice import Notice, NoticeKind
from quarterjack.domain.policies import Overrides, Policies, Priority, Start
from quarterjack.domain.queue import DEFAULT_QUEUE, check_queue, declared_name
from quarterjack.domain.queue import Queue as DeclaredQueue
from quarterjack.errors import InvalidInput
from quarterjack.owner.catalogue import KnownNames
from quarterjack.owner.limits import bounded, check_priority
from quarterjack.payload_types.derived import check_of
from quarterjack.payload_types.schema import REMEDY, PayloadSchema, is_engine_installed
from quarterjack.ports.queues import WorkQueue
from quarterjack.ports.services import Clock, Services
from quarterjack.values import replace

log = logging.getLogger(__name__)

Warn = Callable[[str], None]


class OwnJobs(Protocol):
    """The jobs that a process has."""

    def get(self, name: str) -> Job | None:
        """The job of that name, or None."""

    def queues(self) -> Sequence[DeclaredQueue]:
        """The declared queues, in order of name."""

    def find_queue(self, name: str | None) -> DeclaredQueue | None:
        """The declared queue of that name, or None."""


class PayloadChecks:
    """What payloads of a job have to fit, as far as a process knows that. What it does not know is left to the worker. From any thread."""

    def __init__(self, jobs: OwnJobs, names: KnownNames) -> None:
        self._jobs, self._published = jobs, PublishedSchemas(names)

    def looks_at(self, job: str) -> bool:
        """Whether ``stored`` looks at payloads of the job, so that they have to be read."""
        known = self._jobs.get(job)
        if known is None:
            return self._published.has_one(job)
        return known.payload_type is not None or known.schema is not None

    def looks_at_new(self, job: str) -> bool:
        """Whether ``new`` looks at payloads of the job."""
        known = self._jobs.get(job)
        return self.looks_at(job) or (known is not None and known.check is not None)

    def stored(self, job: str, text: str, warn: Warn) -> None:
        """Check a stored payload (JSON text) as a worker would. Raises InvalidInput. ``warn`` is as in ``PublishedSchemas``."""
        known = self._jobs.get(job)
        if known is None:
            self._published.check(job, text, warn, new=False)
            return
        check_fit(known, text)
        if known.payload_type is not None:
            known.payload_type.converted(text, redact=known.policies.redact)

    def new(self, job: str, payload: Any, text: str, warn: Warn) -> None:
        """Check a new payload, of which ``text`` is the JSON. Raises InvalidInput."""
        known = self._jobs.get(job)
        if known is None:
            self._published.check(job, text, warn, new=True)
            return
        check_fit(known, text)
        if known.payload_type is not None:
            payload = known.payload_type.converted(text, redact=known.policies.redact, new=True)
        if known.check is None:
            return
        try:
            known.check(payload)
        except InvalidInput as problem:
            raise problem.about(f"payload: {problem.field}") from problem
        except ValueError as problem:
            raise InvalidInput("payload", payload, f"does not fit {job!r}", str(problem)) from problem

    def notice(self, job: str, field: str, tenant: str, warn: Warn) -> None:
        """Check that a job can take the notices of ``on_failure`` or ``on_recovery`` (``field``). Raises InvalidInput."""
        if self.looks_at(job):
            self.stored(job, _SAMPLES[field](tenant).encode(), warn)


def _sample(kind: NoticeKind, tenant: str, **words: str) -> Notice:
    """A notice as they all are: only its values are made up."""
    began, at = "2026-05-04T07:00:00+00:00", "2026-05-04T08:00:00+00:00"
    run = f"{tenant}/nightly@{began}"
    names = {"tenant": tenant, "schedule": "nightly", "job": "reports.daily", "incident": "20260504T070000000Z"}
    return Notice(kind=kind, **names, began=began, at=at, count=1, text="tenant/nightly: it fails", run=run, **words)


_SAMPLES: Mapping[str, Callable[[str], Notice]] = {
    "on_failure": lambda tenant: _sample(
        NoticeKind.FAILURE, tenant, state="DEAD", reason="failed for good", error_type="OSError", error="no paper"
    ),
    "on_recovery": lambda tenant: _sample(NoticeKind.RECOVERY, tenant, state="SUCCEEDED"),
}


class PublishedSchemas:
    """The schemas that workers publish, ready to check. From any thread."""

    def __init__(self, names: KnownNames) -> None:
        self._names = names
        self._ready: dict[
            tuple[str, bool], tuple[PublishedJob, list[PayloadSchema]]
        ] = {}  # by job, and whether of new payloads
        self._has_warned = False

    def has_one(self, job: str) -> bool:
        """Whether ``check`` looks at payloads of this job."""
        published = self._names.published(job) if is_engine_installed() else None
        return published is not None and _has_schema(published)

    def check(self, job: str, text: str, warn: Warn, *, new: bool) -> None:
        """Raise InvalidInput for a payload (JSON text) that does not fit what the newest workers publish of the job.

        ``new``: it is not stored yet. ``warn`` is told once if payloads cannot be checked here, because the engine is not installed.
        """
        published = self._names.published(job, fresh=is_engine_installed())
        if published is None or not _has_schema(published):
            return
        if not is_engine_installed():
            self._warn(job, warn)
            return
        for schema in self._schemas(published, new=new):
            # What the job's errors mask is not published: it may be anything.
            schema.check(text, job, hides=published.masks)

    def _warn(self, job: str, warn: Warn) -> None:
        if not self._has_warned:
            self._has_warned = True
            why = "payloads are checked by its worker only, because jsonschema-rs is not installed here"
            warn(f"job={job!r}: {why}; {REMEDY}")

    def _schemas(self, published: PublishedJob, *, new: bool) -> list[PayloadSchema]:
        """The schema that was written by hand, and that of the type."""
        key = published.name, new
        before, schemas = self._ready.get(key, (None, []))
        if before is not published and before != published:
            schemas = list(_compiled(published, new=new))
        self._ready[key] = published, schemas
        return schemas


def _has_schema(published: PublishedJob) -> bool:
    return published.schema is not None or published.fit is not None


def _compiled(published: PublishedJob, *, new: bool) -> Iterator[PayloadSchema]:
    """Without those that this release cannot use: a later one may have published them, or a type is too large for a check."""
    by_type = None
    try:
        if published.schema is not None:
            yield PayloadSchema(published.schema)
        if published.fit is not None:
            by_type = check_of(published.fit, published.payload_schema, new=new)
        if by_type is not None:
            yield PayloadSchema(by_type, formats=False)
    except (InvalidInput, *GARBAGE) as problem:
        log.warning("jobs.schema_unusable", extra={"job": published.name, "error": str(problem)})


def check_declared(name: str, jobs: OwnJobs, work: WorkQueue) -> None:
    """Raises InvalidInput, with the known queues, for a queue that is neither declared nor existing."""
    if jobs.find_queue(name) is not None or name in (existing := work.names()):
        return
    known = sorted({*existing, *(queue.name for queue in jobs.queues())})
    raise InvalidInput(
        "queue",
        name,
        "is not declared",
        f"known queues: {', '.join((DEFAULT_QUEUE, *known))}; declare it beside its jobs, Queue({name!r}), and deploy",
    )


class JobTerms:
    """The terms of all jobs, for one process that submits. From any thread."""

    def __init__(self, jobs: OwnJobs, names: KnownNames, services: Services, clock: Clock) -> None:
        self._jobs, self._names, self._services, self._clock = jobs, names, services, clock
        self.payloads = PayloadChecks(jobs, names)

    def _published(self, job: str) -> PublishedJob | None:
        """What workers say of a job that this process does not have. None: nothing, or that cannot be read."""
        return None if self._jobs.get(job) is not None else self._names.published(job)

    def policies(self, tenant: str, job: str, given: Overrides) -> Overrides:
        """The overrides, with the job's ``start``, ``priority`` and ``flow`` if they have none: the ticker does not know the jobs.

        Raises InvalidInput for a priority that the tenant may not use. What its job has in excess is lowered.
        """
        now = self._clock()
        check_priority(given.priority, tenant, self._services, now)
        if given.start is not None and given.priority is not None and given.flow is not None:
            return given
        known, published = self._jobs.get(job), self._published(job)
        own = known.policies if known is not None else Policies() if published is None else published
        if given.flow is None and own.flow is not None:
            given = replace(given, flow=own.flow)
        priority = given.priority or bounded(own.priority, tenant, self._services, now)
        found = given if given.start is not None or own.start is Start.PROMPT else replace(given, start=own.start)
        return found if priority is (given.priority or Priority.NORMAL) else replace(found, priority=priority)

    def queue_of(self, tenant: str, job: str) -> str | None:
        """The queue of a job's runs where their submitter names none: the job's, else that of the tenant's profile. Raises Unavailable.

        Of a job that this process does not have: as workers publish it, if that can be read.
        """
        known = self._jobs.get(job) or self._published(job)
        if known is not None and known.queue is not None:
            return known.queue
        return self._services.tenants.governance(tenant, self._clock()).profile.queue

    def queue_name(self, tenant: str, job: str, given: str | None) -> str | None:
        """The queue of a run as messages name it: the given one, else its job's; None: the default queue. Raises InvalidInput."""
        queue = self.queue_of(tenant, job) if given is None else given
        name = None if queue is None else declared_name(check_queue(queue))
        if name is None:
            return None
        published = None if given is not None else self._published(job)
        if published is None or published.queue != name:  # a queue that workers publish is there: it is not looked for
            self._check_declared(tenant, name, job, given)
        return name

    def _check_declared(self, tenant: str, name: str, job: str, given: str | None) -> None:
        """Raises InvalidInput for a queue that is not there, and says so if a profile names it."""
        try:
            check_declared(name, self._jobs, self._services.work)
        except InvalidInput as problem:
            known = self._jobs.get(job)
            if given is not None or (known is not None and known.queue is not None):
                raise
            remedy = f"name another, or ask an operator of the installation to change the profile; {problem.remedy}"
            what = (
                f"is the queue of the profile of tenant {tenant!r}, its tier or the installation, and is not declared"
            )
            raise InvalidInput("queue", name, what, remedy) from None
