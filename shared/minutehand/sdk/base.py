"""State and checks that all SDK methods share: tenant, services, clock, jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from enum import Enum
from typing import Any

from minutehand.arguments import payload_text
from minutehand.clock import system_clock
from minutehand.domain.message import INLINE_PAYLOAD
from minutehand.domain.names import check_name, check_tenant, parse_run_id
from minutehand.domain.notice import JOB
from minutehand.domain.options import Options, changed
from minutehand.domain.payload import size
from minutehand.domain.policies import Overrides, Start
from minutehand.domain.queue import DEFAULT_QUEUE, check_queue, declared_name
from minutehand.domain.run import RunRow
from minutehand.domain.schedule import Definition, ScheduleState
from minutehand.errors import InvalidInput, NotFound
from minutehand.fires.context import FireContext
from minutehand.jobs import Registry, default_registry, load
from minutehand.ports.services import Clock, Services
from minutehand.ports.work_queue import WorkQueue
from minutehand.settings import Settings, from_environment
from minutehand.timing import Rule


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


_NEIGHBOURS = 200  # existing names that an unknown name is compared with


class Unset(Enum):
    """Type of the default of an argument for which None is a value."""

    UNSET = "unset"


UNSET = Unset.UNSET


def _connect(settings: Settings) -> Services:
    from minutehand.services import connect  # noqa: PLC0415 (adapters and clients: imported with the first call to AWS)

    return connect(settings)


class SchedulerBase:
    """The state of a Scheduler."""

    def __init__(
        self,
        tenant: str | None = None,
        *,
        settings: Settings | None = None,
        endpoint: str | None = None,
        prefix: str | None = None,
        jobs: Registry | str | None = None,
        check_jobs: bool = True,
        services: Services | None = None,
        clock: Clock = system_clock,
    ) -> None:
        given = settings or from_environment()
        given = replace(given.at(endpoint), prefix=prefix or given.prefix)
        self.tenant = check_tenant(given.tenant if tenant is None else tenant)
        self._services = services or _connect(given)
        self._clock = clock
        self._check_jobs = check_jobs
        self._jobs = load(jobs) if isinstance(jobs, str) else default_registry if jobs is None else jobs

    @property
    def _context(self) -> FireContext:
        return FireContext(services=self._services, clock=self._clock)

    def _store_payload(self, payload: Any) -> tuple[str | None, str | None]:
        """Store a payload. Returns its text, or its key in the bucket if it is too large for a message."""
        text = payload_text(payload)
        if size(text) <= INLINE_PAYLOAD:
            return text, None
        return None, self._services.payloads.put(self.tenant, text)

    def _store_payload_for(self, name: str, payload: Any) -> tuple[str | None, str | None]:
        """Store a payload for an existing schedule. Raises NotFound before it writes to the bucket."""
        if size(payload_text(payload)) > INLINE_PAYLOAD:
            head = self._services.schedules.head(self.tenant, name)
            if head is None or head.state is ScheduleState.DELETED:
                raise self._no_schedule(name)
        return self._store_payload(payload)

    def _payload_of(self, definition: Definition) -> str | None:
        """The JSON text of a payload, from the row or from the bucket."""
        ref = definition.payload_ref
        return definition.payload if ref is None else self._services.payloads.get(ref)

    def _read(self, run_id: str) -> RunRow:
        ref = parse_run_id(run_id)
        run = self._services.ledger.read(ref) if ref.tenant == self.tenant else None
        if run is None:
            raise NotFound(f"run_id={run_id!r}: tenant {self.tenant!r} has no such run, or its retention is over")
        return run

    def _no_schedule(self, name: str) -> NotFound:
        """The error for a missing schedule, with similar names."""
        page = self._services.schedules.page(self.tenant, prefix=name[:1], limit=_NEIGHBOURS, cursor=None)
        names = [head.name for head in page.items if head.state is not ScheduleState.DELETED]
        near = [repr(other) for other in get_close_matches(name, names)]
        remedy = f"did you mean {' or '.join(near)}?" if near else "list_schedules() shows the existing ones"
        return NotFound(f"name={name!r}: tenant {self.tenant!r} has no schedule of that name; {remedy}")

    def _job_name(self, job: str) -> str:
        check_name(job, "job")
        return self._jobs.require(job).name if self._check_jobs else job

    def _check_payload(self, job: str, payload: Any) -> None:
        """Run the job's own check of the payload. Raises InvalidInput."""
        known = self._jobs.get(job)
        if known is None or known.check is None:
            return
        try:
            known.check(payload)
        except InvalidInput as problem:
            raise InvalidInput(f"payload: {problem.field}", problem.value, problem.problem, problem.remedy) from problem
        except ValueError as problem:
            raise InvalidInput("payload", payload, f"does not fit {job!r}", str(problem)) from problem

    def _with_job_start(self, job: str, given: Overrides) -> Overrides:
        """The overrides, with the job's ``start`` if they have none: the ticker does not know the jobs."""
        known = self._jobs.get(job)
        if given.start is None and known is not None and known.policies.start is not Start.PROMPT:
            return replace(given, start=known.policies.start)
        return given

    # Queues.

    def queues(self) -> list[str]:
        """Names of the queues that exist: "default", and the declared ones that were deployed. Raises Unavailable, Misconfigured."""
        return [DEFAULT_QUEUE, *self._services.work.names()]

    def _queue_name(self, job: str, given: str | None) -> str | None:
        """The queue of a run as messages name it: the given one, else its job's; None: the default queue.

        Raises InvalidInput for a queue that neither the loaded jobs declare nor the cloud has.
        """
        queue = self._job_queue(job) if given is None else given
        name = None if queue is None else declared_name(check_queue(queue))
        if name is not None:
            check_declared(name, self._jobs, self._services.work)
        return name

    def _options(self, job: str, given: Mapping[str, Any]) -> Options:
        """The options of a new schedule. Missing ones come from its job, then from its queue."""
        chosen = changed(Options(), given)
        queue = self._queue_name(job, chosen.queue)
        declared = self._jobs.find_queue(queue)
        names = () if declared is None else ("on_failure", "on_recovery")
        inherited: dict[str, Any] = {name: getattr(declared, name) for name in names if name not in given}
        options = replace(chosen, queue=queue, **inherited)
        self._check_notified_jobs(options)
        return options

    def _check_options(self, given: Mapping[str, Any]) -> None:
        """Raises InvalidInput for options that contradict each other, before anything is stored."""
        options = changed(Options(), given)
        self._check_notified_jobs(options)
        if options.queue is not None:
            self._queue_name("", options.queue)

    def _check_notified_jobs(self, options: Options) -> None:
        """Raises InvalidInput if a job to be notified does not exist: otherwise the first incident would reveal it."""
        for field in ("on_failure", "on_recovery") if self._check_jobs else ():
            target = getattr(options, field) or ""
            if target.startswith(JOB) and self._jobs.get(target.removeprefix(JOB)) is None:
                known = ", ".join(self._jobs.names()) or "none"
                problem = "names no job that is registered in this process"
                raise InvalidInput(field, target, problem, f"known jobs: {known}")

    def _options_after(self, present: Definition, job: str, given: Mapping[str, Any]) -> Options:
        """The options of an update. A queue that came from the job changes with the job; a queue that its owner chose stays."""
        after = changed(present.options, given)
        if "queue" in given:
            return replace(after, queue=self._queue_name(job, given["queue"]))
        if job != present.job and present.options.queue == self._job_queue(present.job):
            return replace(after, queue=self._queue_name(job, None))
        return after

    def _job_queue(self, job: str) -> str | None:
        known = self._jobs.get(job)
        return None if known is None else known.queue

    def _with_queue_window(self, rule: Rule, options: Options) -> Rule:
        """The rule, with the window of its queue if it has none."""
        declared = self._jobs.find_queue(options.queue)
        if declared is None or rule.window or rule.jitter:
            return rule
        return replace(rule, window=declared.spread)
