"""What every door asks before it accepts work: may the tenant run this job? The worker asks again, and decides."""

from __future__ import annotations

from quarterjack.domain.tenants.job_grants import job_problem
from quarterjack.errors import QuarterjackError
from quarterjack.jobs import Registry
from quarterjack.owner.catalogue import KnownNames
from quarterjack.ports.services import Clock, Services


class JobGrants:
    """Which jobs a tenant may run, for one process that submits and schedules.

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
