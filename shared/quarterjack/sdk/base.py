"""State and checks that all SDK methods share: tenant, services, clock, jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self

from quarterjack.arguments import MAX_DESCRIPTION, checked_tags, checked_text
from quarterjack.clock import system_clock
from quarterjack.domain.audit import Via, ViaWord
from quarterjack.domain.job import JobRef
from quarterjack.domain.job_catalogue import PublishedJob, nearest
from quarterjack.domain.names import check_flag, check_name, check_tenant
from quarterjack.domain.notice import JOB
from quarterjack.domain.options import Options, changed
from quarterjack.domain.policies import Overrides, Policies, Priority, Start
from quarterjack.domain.queue import DEFAULT_QUEUE, check_queue, declared_name
from quarterjack.domain.schedule import Definition, Head
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.limits import RateWord
from quarterjack.domain.tenants.suspension import not_served
from quarterjack.errors import InvalidInput, QuarterjackError
from quarterjack.fires.backpressure import RecentHolds
from quarterjack.fires.context import FireContext
from quarterjack.jobs import Registry, default_registry, load
from quarterjack.owner.catalogue import KnownNames
from quarterjack.owner.granted import JobGrants
from quarterjack.owner.limits import bounded, check_priority, throttle
from quarterjack.owner.payload_checks import PayloadChecks
from quarterjack.owner.quotas import put_payload, take_place
from quarterjack.owner.schedules.client_tokens import ScheduleCall
from quarterjack.ports.queues import WorkQueue
from quarterjack.ports.services import Clock, Services
from quarterjack.sdk.access.lookups import Lookups
from quarterjack.sdk.connected import Connected
from quarterjack.sdk.requests import PendingPayload, checked_patience, refuse_secrets, token_of
from quarterjack.sdk.schedule_views import seen_of
from quarterjack.sdk.session import over
from quarterjack.settings import Settings

UNSET: Any = object()  # default of an argument for which None is a value
NONE: Any = None  # default of a payload, whose type is that of its job's


def check_declared(name: str, jobs: Registry, work: WorkQueue) -> None:
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


class SchedulerBase(Lookups, Connected):
    def __init__(
        self,
        tenant: str | None = None,
        *,
        settings: Settings | None = None,
        endpoint: str | None = None,
        prefix: str | None = None,
        jobs: Registry | str | None = None,
        strict: bool = False,
        patience: float = 10.0,
        actor: str | None = None,
        via: ViaWord = Via.SDK,
        services: Services | None = None,
        clock: Clock = system_clock,
    ) -> None:
        named = None if tenant is None else check_tenant(tenant)
        super().__init__(
            settings=settings, endpoint=endpoint, prefix=prefix, actor=actor, via=via, services=services, clock=clock
        )
        self.session = session = replace(
            self.session, strict=check_flag("strict", strict), patience=checked_patience(patience)
        )
        self.tenant = named or check_tenant(session.settings.tenant)
        self._has_history = session.settings.history
        self._known_names = KnownNames(session.services, clock)
        self._holds = RecentHolds(session.services, clock)
        self._jobs = load(jobs) if isinstance(jobs, str) else default_registry if jobs is None else jobs
        self._grants = JobGrants(session.services, clock, self._jobs, self._known_names)
        self._payload_checks = PayloadChecks(self._jobs, self._known_names)

    def strictly(self, *, strict: bool = True) -> Self:
        """A copy that refuses a job that neither this process nor any worker knows; with ``strict=False`` one that warns of it."""
        return over(self, replace(self.session, strict=check_flag("strict", strict)))

    def with_tenant(self, tenant: str) -> Self:
        """A copy for the schedules and runs of another tenant, that shares all connections. Raises InvalidInput."""
        other = copy(self)
        other.tenant = check_tenant(tenant)
        return other

    def _take(self, word: RateWord, *, place: bool | None = None) -> None:
        """Take a token of the tenant's rate, and a place of its runs that have not ended (``place``; default: for a run that is accepted).

        Waits for them as long as the caller's patience lasts. Raises Throttled, Unavailable.
        """
        if self.session.caller.is_system:
            return
        checks = [partial(throttle, self.tenant, word)]
        if word is RateWord.RUNS if place is None else place:
            checks.append(partial(take_place, self.tenant, has_history=self._has_history))
        left = self.session.patience
        for check in checks:
            while (refused := check(services=self.session.services, now=self.session.clock())) is not None:
                if refused.seconds > left:
                    raise refused
                self.session.services.wait(refused.seconds)
                left -= refused.seconds

    def _pending(self, payload: Any, job: str | None = None) -> PendingPayload:
        """A payload as JSON, not yet stored: of this job, if it is known for which. Raises InvalidInput."""
        known = None if job is None else self._jobs.get(job)
        kind = None if known is None else known.payload_type
        pending = PendingPayload(payload, lambda whose, text: put_payload(whose, text, self._context), kind)
        refuse_secrets("payload", lambda: json.loads(pending.text), self.tenant)
        return pending

    def _text(self, field: str, value: object) -> str:
        """A description or note that will be stored. Raises InvalidInput."""
        text = checked_text(field, value, MAX_DESCRIPTION)
        refuse_secrets(field, lambda: text, self.tenant)
        return text

    def _tags(self, tags: object) -> dict[str, str]:
        """Tags that will be stored. Raises InvalidInput."""
        found = checked_tags(tags)
        refuse_secrets("tags", lambda: found, self.tenant)
        return found

    def _checked(self, job: str, payload: Any) -> PendingPayload:
        """A new payload for a job, checked as far as this process knows that. Raises InvalidInput."""
        pending = self._pending(payload, job)
        self._check_payload(job, payload, pending.text)
        return pending

    @property
    def _context(self) -> FireContext:
        return self.session.context(gates=(self._holds,))

    def _of_one_call(self, via: Via | None = None) -> Self:
        """A copy whose acts are all of one call."""
        caller = self.session.caller_of_call()
        return self.with_caller(caller if via is None or caller.is_system else replace(caller, via=via))

    def _call(
        self,
        act: str,
        permit: Callable[[Head | None], None],
        name: str,
        expected_revision: object,
        client_token: str | None,
        *arguments: object,
    ) -> ScheduleCall:
        """The call ``act`` about a schedule, with the token of the call and these arguments; ``permit`` checks what is there."""
        expected, version = seen_of(expected_revision)
        token = token_of(client_token, self.tenant, act, check_name(name), *arguments, expected)
        return ScheduleCall(
            tenant=self.tenant, name=name, expected=expected, version=version, token=token, permit=permit
        )

    def _payload_of(self, definition: Definition) -> str | None:
        ref = definition.payload_ref
        return definition.payload if ref is None else self.session.services.payloads.get(self.tenant, ref)

    def _job_name(self, job: JobRef) -> str:
        if not isinstance(job, str) and callable(job):
            return self._jobs.name_of(job)
        self._check_job("job", check_name(job, "job"), job)
        return job

    def _check_job(self, field: str, job: str, value: str) -> None:
        """Warn of a job that neither this process nor any worker knows; if ``strict``, raise InvalidInput about ``field``."""
        if self._jobs.get(job) is not None:
            return
        try:
            found = self._known_names.of(job)
        except QuarterjackError:
            if self.session.strict:
                raise
            return  # a role that may not read the catalogue may submit
        knows = found.knows(job)
        if knows or (knows is None and not self.session.strict):
            return
        hint = nearest(job, self._nameable({*found.entries, *self._jobs.names()}))
        if self.session.strict:
            said = "no worker has published its jobs yet" if knows is None else "no worker has ever known it"
            remedy = (
                "start a worker that knows it, import the package that declares it, or pass strict=False to Scheduler"
            )
            raise InvalidInput(field, value, f"is not registered in this process, and {said}", f"{hint}; or {remedy}")
        self.session.on_unknown(
            f"{field}={value!r}: no worker has ever known this job: its runs wait 15 minutes for one; {hint}"
        )

    def _may_run(self, *jobs: str) -> None:
        """Raise JobNotGranted for a job that this tenant may not run. One read in five seconds."""
        for job in dict.fromkeys(jobs):
            problem = self._grants.problem(self.tenant, job)
            if problem is not None:
                raise self.session.gate.job_refusal(self.tenant, self.session.caller, job, problem)

    def _waits_because(self, job: str) -> str | None:
        """Why a run of the job waits: its tenant is suspended, or may not run it, or no worker has ever known it; None: who knows."""
        try:
            problem = not_served(self.session.services.tenants.governance(self.tenant, self.session.clock()))
            problem = problem or self._grants.problem(self.tenant, job)
            found = self._known_names.of(job)
        except QuarterjackError:
            return None
        if problem is not None:
            return problem
        if found.knows(job) is not False:
            return None
        return f"no worker knows job {job!r}; {nearest(job, self._nameable(found.entries))}"

    def _named_job(self, job: JobRef | None) -> str | None:
        """The name of a job by which runs and schedules are looked for: one that this process may not know. Raises InvalidInput."""
        if job is None:
            return None
        return check_name(job, "job") if isinstance(job, str) or not callable(job) else self._jobs.name_of(job)

    def _check_stored(self, job: str, payload: str | None, ref: str | None) -> None:
        """Check a payload that was stored for a run or a schedule, as a worker would. Reads it only if its job says what fits."""
        if self._payload_checks.looks_at(job):
            text = payload if ref is None else self.session.services.payloads.get(self.tenant, ref)
            with self._without_values(job):
                self._payload_checks.stored(job, text or "null", self.session.on_unknown)

    def _check_payload(self, job: str, payload: Any, text: str) -> None:
        """Check a new payload, of which ``text`` is the JSON."""
        self._payload_checks.new(job, payload, text, self.session.on_unknown)

    def _with_job_words(self, job: str, given: Overrides) -> Overrides:
        """The overrides, with the job's ``start`` and ``priority`` if they have none: the ticker does not know the jobs.

        Raises InvalidInput for a priority that the tenant may not use. What its job has in excess is lowered.
        """
        check_priority(given.priority, self.tenant, self.session.services, self.session.clock())
        if given.start is not None and given.priority is not None:
            return given
        known, published = self._jobs.get(job), self._published(job)
        own = known.policies if known is not None else Policies() if published is None else published
        priority = given.priority or bounded(own.priority, self.tenant, self.session.services, self.session.clock())
        found = given if given.start is not None or own.start is Start.PROMPT else replace(given, start=own.start)
        return found if priority is (given.priority or Priority.NORMAL) else replace(found, priority=priority)

    def _published(self, job: str) -> PublishedJob | None:
        """What workers say of a job that this process does not have. None: nothing, or that cannot be read."""
        return None if self._jobs.get(job) is not None else self._known_names.published(job)

    def _queue_name(self, job: str, given: str | None) -> str | None:
        """The queue of a run as messages name it: the given one, else its job's; None: the default queue. Raises InvalidInput."""
        queue = self._job_queue(job) if given is None else given
        name = None if queue is None else declared_name(check_queue(queue))
        if name is None:
            return None
        published = None if given is not None else self._published(job)
        if published is None or published.queue != name:  # a queue that workers publish is there: it is not looked for
            self._check_declared(name, job, given)
        return name

    def _check_declared(self, name: str, job: str, given: str | None) -> None:
        """Raises InvalidInput for a queue that is not there, and says so if a profile names it."""
        try:
            check_declared(name, self._jobs, self.session.services.work)
        except InvalidInput as problem:
            known = self._jobs.get(job)
            if given is not None or (known is not None and known.queue is not None):
                raise
            remedy = f"name another, or ask an operator of the installation to change the profile; {problem.remedy}"
            what = f"is the queue of the profile of tenant {self.tenant!r}, its tier or the installation, and is not declared"
            raise InvalidInput("queue", name, what, remedy) from None

    def _options(self, job: str, given: Mapping[str, Any]) -> Options:
        """The options of a new schedule. Missing ones come from its job, then from its queue."""
        options = changed(Options(), given)
        options = replace(options, queue=self._queue_name(job, options.queue))
        declared = self._jobs.find_queue(options.queue)
        if declared is not None:
            notified: dict[str, Any] = {"on_failure": declared.on_failure, "on_recovery": declared.on_recovery}
            options = replace(options, **{name: value for name, value in notified.items() if name not in given})
        self._check_notified_jobs(options, given)
        return options

    def _check_notified_jobs(self, options: Options, given: Collection[str]) -> None:
        """As for the job of a schedule: otherwise the first incident would reveal that a job to be notified does not exist.

        Who names one in ``given`` has it run, and so needs to be able to submit it.
        """
        for field in ("on_failure", "on_recovery"):
            target = getattr(options, field) or ""
            if target.startswith(JOB):
                if field in given:
                    self._permit(Verb.SUBMIT, target.removeprefix(JOB))
                self._check_job(field, target.removeprefix(JOB), target)
                self._may_run(target.removeprefix(JOB))
                self._check_notified(field, target)

    def _check_notified(self, field: str, target: str) -> None:
        """Warn of a job that could not take a notice; if ``strict``, raise InvalidInput."""
        try:
            self._payload_checks.notice(target.removeprefix(JOB), field, self.tenant, self.session.on_unknown)
        except InvalidInput as problem:
            remedy = "name a job that takes notices; quarterjack.domain.notice has their fields"
            refused = InvalidInput(field, target, f"this job does not take notices ({problem})", remedy)
            if self.session.strict:
                raise refused from None
            self.session.on_unknown(str(refused))

    def _options_after(self, present: Definition, job: str, given: Mapping[str, Any]) -> Options:
        """The options of an update. A queue that came from the job changes with the job; a queue that its owner chose stays."""
        after = changed(present.options, given)
        if "queue" in given:
            return replace(after, queue=self._queue_name(job, given["queue"]))
        if job != present.job and present.options.queue == self._job_queue(present.job):
            return replace(after, queue=self._queue_name(job, None))
        return after

    def _job_queue(self, job: str) -> str | None:
        """The queue of a job's runs where their caller names none: the job's, else that of the tenant's profile. Raises Unavailable.

        Of a job that this process does not have: as workers publish it, if that can be read.
        """
        known = self._jobs.get(job) or self._published(job)
        if known is not None and known.queue is not None:
            return known.queue
        return self.session.services.tenants.governance(self.tenant, self.session.clock()).profile.queue
