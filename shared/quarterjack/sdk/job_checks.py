"""What jobs a call may name, and what their payloads, queues and options have to be, as far as this process knows that."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from quarterjack.domain.job import JobRef
from quarterjack.domain.job_catalogue import nearest
from quarterjack.domain.names import check_name
from quarterjack.domain.notice import JOB
from quarterjack.domain.options import Options, changed
from quarterjack.domain.policies import Overrides
from quarterjack.domain.schedule import Definition
from quarterjack.domain.tenants.access import Verb, not_served
from quarterjack.errors import InvalidInput, QuarterjackError
from quarterjack.jobs import Registry
from quarterjack.owner.catalogue import JobGrants, KnownNames
from quarterjack.owner.job_terms import JobTerms, PayloadChecks
from quarterjack.ports.services import Clock, Services
from quarterjack.sdk.caller_access import CallerAccess
from quarterjack.sdk.session import Session
from quarterjack.values import replace


@dataclass(frozen=True)
class JobSources:
    """Where a Scheduler looks jobs up. All its copies share it."""

    registry: Registry  # the jobs of this process
    names: KnownNames  # the jobs that workers publish
    grants: JobGrants  # which of them a tenant may run
    terms: JobTerms  # what their runs have where a call says nothing
    payloads: PayloadChecks  # what their payloads have to fit

    @classmethod
    def of(cls, registry: Registry, services: Services, clock: Clock) -> Self:
        """Those of an installation. They read it when a job is asked for."""
        names = KnownNames(services, clock)
        terms = JobTerms(registry, names, services, clock)
        return cls(registry, names, JobGrants(services, clock, registry, names), terms, terms.payloads)


class JobChecks:
    """The checks of one caller's jobs for one tenant. What neither this process nor the catalogue knows is left to the worker."""

    def __init__(self, session: Session, tenant: str, sources: JobSources, access: CallerAccess) -> None:
        self._session, self._tenant, self._sources, self._access = session, tenant, sources, access

    def job_name(self, job: JobRef) -> str:
        """The name of a job that will run. Warns of an unknown one; raises InvalidInput if ``strict``."""
        if not isinstance(job, str) and callable(job):
            return self._sources.registry.name_of(job)
        self.check_job("job", check_name(job, "job"), job)
        return job

    def check_job(self, field: str, job: str, value: str) -> None:
        """Warn of a job that neither this process nor any worker knows; if ``strict``, raise InvalidInput about ``field``."""
        if self._sources.registry.get(job) is not None:
            return
        try:
            found = self._sources.names.of(job)
        except QuarterjackError:
            if self._session.strict:
                raise
            return  # a role that may not read the catalogue may submit
        knows = found.knows(job)
        if knows or (knows is None and not self._session.strict):
            return
        hint = nearest(job, self._access.nameable({*found.entries, *self._sources.registry.names()}))
        if self._session.strict:
            said = "no worker has published its jobs yet" if knows is None else "no worker has ever known it"
            remedy = (
                "start a worker that knows it, import the package that declares it, or pass strict=False to Scheduler"
            )
            raise InvalidInput(field, value, f"is not registered in this process, and {said}", f"{hint}; or {remedy}")
        self._session.on_unknown(
            f"{field}={value!r}: no worker has ever known this job: its runs wait 15 minutes for one; {hint}"
        )

    def may_run(self, *jobs: str) -> None:
        """Raise JobNotGranted for a job that this tenant may not run. One read in five seconds."""
        for job in dict.fromkeys(jobs):
            problem = self._sources.grants.problem(self._tenant, job)
            if problem is not None:
                raise self._session.gate.job_refusal(self._tenant, self._session.caller, job, problem)

    def waits_because(self, job: str) -> str | None:
        """Why a run of the job waits: its tenant is suspended, or may not run it, or no worker has ever known it; None: who knows."""
        try:
            problem = not_served(self._session.services.tenants.governance(self._tenant, self._session.clock()))
            problem = problem or self._sources.grants.problem(self._tenant, job)
            found = self._sources.names.of(job)
        except QuarterjackError:
            return None
        if problem is not None:
            return problem
        if found.knows(job) is not False:
            return None
        return f"no worker knows job {job!r}; {nearest(job, self._access.nameable(found.entries))}"

    def named_job(self, job: JobRef | None) -> str | None:
        """The name of a job by which runs and schedules are looked for: one that this process may not know. Raises InvalidInput."""
        if job is None:
            return None
        return (
            check_name(job, "job") if isinstance(job, str) or not callable(job) else self._sources.registry.name_of(job)
        )

    def looks_at(self, job: str) -> bool:
        """Whether ``check_stored`` checks payloads of a job."""
        return self._sources.payloads.looks_at(job)

    def check_stored(self, job: str, payload: str | None, ref: str | None) -> None:
        """Check a payload that was stored for a run or a schedule, as a worker would. Reads it only if its job says what fits."""
        if self.looks_at(job):
            text = payload if ref is None else self._session.services.payloads.get(self._tenant, ref)
            with self._access.without_values(job):
                self._sources.payloads.stored(job, text or "null", self._session.on_unknown)

    def check_payload(self, job: str, payload: Any, text: str) -> None:
        """Check a new payload, of which ``text`` is the JSON."""
        self._sources.payloads.new(job, payload, text, self._session.on_unknown)

    def with_job_words(self, job: str, given: Overrides) -> Overrides:
        """As ``JobTerms.policies``."""
        return self._sources.terms.policies(self._tenant, job, given)

    def queue_name(self, job: str, given: str | None) -> str | None:
        """As ``JobTerms.queue_name``."""
        return self._sources.terms.queue_name(self._tenant, job, given)

    def options(self, job: str, given: Mapping[str, Any]) -> Options:
        """The options of a new schedule. Missing ones come from its job, then from its queue."""
        options = changed(Options(), given)
        options = replace(options, queue=self.queue_name(job, options.queue))
        declared = self._sources.registry.find_queue(options.queue)
        if declared is not None:
            notified: dict[str, Any] = {"on_failure": declared.on_failure, "on_recovery": declared.on_recovery}
            options = replace(options, **{name: value for name, value in notified.items() if name not in given})
        self.check_notified_jobs(options, given)
        return options

    def check_notified_jobs(self, options: Options, given: Collection[str]) -> None:
        """As for the job of a schedule: otherwise the first incident would reveal that a job to be notified does not exist.

        Who names one in ``given`` has it run, and so needs to be able to submit it.
        """
        for field in ("on_failure", "on_recovery"):
            target = getattr(options, field) or ""
            if target.startswith(JOB):
                if field in given:
                    self._access.check(Verb.SUBMIT, target.removeprefix(JOB))
                self.check_job(field, target.removeprefix(JOB), target)
                self.may_run(target.removeprefix(JOB))
                self._check_notified(field, target)

    def _check_notified(self, field: str, target: str) -> None:
        """Warn of a job that could not take a notice; if ``strict``, raise InvalidInput."""
        try:
            self._sources.payloads.notice(target.removeprefix(JOB), field, self._tenant, self._session.on_unknown)
        except InvalidInput as problem:
            remedy = "name a job that takes notices; quarterjack.domain.notice has their fields"
            refused = InvalidInput(field, target, f"this job does not take notices ({problem})", remedy)
            if self._session.strict:
                raise refused from None
            self._session.on_unknown(str(refused))

    def options_after(self, present: Definition, job: str, given: Mapping[str, Any]) -> Options:
        """The options of an update. A queue that came from the job changes with the job; a queue that its owner chose stays."""
        after = changed(present.options, given)
        if "queue" in given:
            return replace(after, queue=self.queue_name(job, given["queue"]))
        if job != present.job and present.options.queue == self.job_queue(present.job):
            return replace(after, queue=self.queue_name(job, None))
        return after

    def job_queue(self, job: str) -> str | None:
        """As ``JobTerms.queue_of``."""
        return self._sources.terms.queue_of(self._tenant, job)
