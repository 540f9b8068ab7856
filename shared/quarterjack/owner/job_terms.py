"""What a run has of its job where its submitter says nothing: its queue, start and priority; and what its payload has to fit.

Of a job that this process has its registry says it, of another one the catalogue that workers publish.
"""

from __future__ import annotations

from dataclasses import replace

from quarterjack.domain.job_catalogue import PublishedJob
from quarterjack.domain.policies import Overrides, Policies, Priority, Start
from quarterjack.domain.queue import DEFAULT_QUEUE, check_queue, declared_name
from quarterjack.errors import InvalidInput
from quarterjack.owner.catalogue import KnownNames
from quarterjack.owner.limits import bounded, check_priority
from quarterjack.owner.payload_checks import OwnJobs, PayloadChecks
from quarterjack.ports.queues import WorkQueue
from quarterjack.ports.services import Clock, Services


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
        """The overrides, with the job's ``start`` and ``priority`` if they have none: the ticker does not know the jobs.

        Raises InvalidInput for a priority that the tenant may not use. What its job has in excess is lowered.
        """
        now = self._clock()
        check_priority(given.priority, tenant, self._services, now)
        if given.start is not None and given.priority is not None:
            return given
        known, published = self._jobs.get(job), self._published(job)
        own = known.policies if known is not None else Policies() if published is None else published
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
