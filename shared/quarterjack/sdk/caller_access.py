"""The checks that every method of the SDK makes first, and what a caller sees who may not read payloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, TypeVar

from quarterjack.domain.history.dead_run import DeadRunRow
from quarterjack.domain.names import PIPELINE, RunRef, check_name, parse_run_id
from quarterjack.domain.run import FailedAttemptRow, Failure, RunRow, RunState, SiblingRows
from quarterjack.domain.schedule import Head, ScheduleState
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.errors import InvalidInput, NotFound, shorten
from quarterjack.sdk.session import Session
from quarterjack.sdk.views import DeadRun, Run, dead_view, run_view
from quarterjack.values import replace

_T = TypeVar("_T")
_NAMING = (Verb.READ_INSTALLATION, Verb.READ_SCHEDULES, Verb.SUBMIT, Verb.CREATE, Verb.UPDATE)


class CallerAccess:
    """The grants of a caller for one tenant. The profile behind them is read once in five seconds."""

    def __init__(self, session: Session, tenant: str) -> None:
        self._session, self._tenant = session, tenant

    def check(self, verb: Verb, job: str | None = None, *, what: str | None = None) -> None:
        """Raises Forbidden unless the caller has a verb for a job; None: for all jobs at once. ``what`` is what it is to be used on."""
        self._session.gate.check(self._tenant, self._session.caller, verb, job, what=what)

    def check_some(self, verb: Verb, *, what: str | None = None) -> None:
        """Raises Forbidden unless the caller has a verb for some job."""
        self._session.gate.check_some(self._tenant, self._session.caller, verb, what=what)

    def check_all_tenants(self, verb: Verb) -> None:
        """Raises Forbidden unless the caller has a verb by a grant of the installation, if that has any.

        Without any, tenants with grants of their own are left out of what is answered: see ``visible_of_all``.
        """
        self._session.gate.check(INSTALLATION, self._session.caller, verb)

    def head_check(self, verb: Verb, name: str) -> Callable[[Head | None], None]:
        """A check of the schedule of that name, before something is done to it: None stands for none.

        Raises Forbidden at once if the caller has the verb for no job.
        """
        what = f"schedule {shorten(name, 300)}"
        self.check_some(verb, what=what)

        def check(head: Head | None) -> None:
            self.check_seen(verb, None if head is None else head.job, what)

        return check

    def upsert_check(self, name: str, job: str | None) -> Callable[[Head | None], None]:
        """A check of the schedule that is there, before it is created, or updated to a job. Raises Forbidden at once if neither may be."""
        what = f"schedule {shorten(name, 300)}"
        if not self.may(Verb.CREATE, job):
            self.check(Verb.UPDATE, job, what=what)

        def check(head: Head | None) -> None:
            if head is None or head.state is ScheduleState.DELETED:
                self.check(Verb.CREATE, job, what=what)
            else:
                self.check(Verb.UPDATE, job, what=what)
                self.check_seen(Verb.UPDATE, head.job, what)

        return check

    def check_seen(self, verb: Verb, job: str | None, what: str) -> None:
        """Raises Forbidden unless the caller has a verb for the job of a thing that was found; None: there is no such thing."""
        self._session.gate.check_seen(self._tenant, self._session.caller, verb, job, what)

    def may(self, verb: Verb, job: str | None = None, tenant: str | None = None) -> bool:
        """Whether the caller has a verb for a job, or for all jobs; of this tenant, unless another is given. Nothing is audited."""
        return self._session.may(tenant or self._tenant, verb, job)

    def is_limited(self, verb: Verb) -> bool:
        """Whether the caller has a verb for some jobs only."""
        return not self.may(verb)

    def visible(self, rows: Iterable[_T], verb: Verb, job: Callable[[_T], str]) -> list[_T]:
        """Those of this tenant's rows whose jobs the caller has a verb for."""
        found = self._session.gate.allowance(self._tenant, self._session.caller, verb)
        return list(rows) if found.covers(None) else [row for row in rows if found.covers(job(row))]

    def visible_of_all(self, runs: Iterable[RunRow], verb: Verb) -> list[RunRow]:
        """Those runs of any tenant for whose tenant and job the caller has a verb."""
        return [run for run in runs if self.may(verb, run.job, run.ref.tenant)]

    def nameable(self, jobs: Iterable[str]) -> Iterable[str]:
        """Those jobs that an error may name to this caller: it has some verb for them."""
        found = [self._session.gate.allowance(self._tenant, self._session.caller, verb) for verb in _NAMING]
        return [job for job in jobs if any(one.covers(job) for one in found)]

    # Views.

    @contextmanager
    def without_values(self, job: str) -> Iterator[None]:
        """Within this, an InvalidInput about a stored payload does not show it to a caller who may not read it."""
        try:
            yield
        except InvalidInput:
            if self.may(Verb.READ_PAYLOADS, job):
                raise
            problem = f"that is stored does not fit {job!r}"
            remedy = f"pass another payload, or ask somebody who may {Verb.READ_PAYLOADS} what is wrong with it"
            raise InvalidInput("payload", "(masked)", problem, remedy) from None

    def run_view(self, run: RunRow, **given: Any) -> Run:
        """The public form of a run, without payload, result, steps and texts of errors if the caller may not read them."""
        if self.may(Verb.READ_PAYLOADS, run.job, run.ref.tenant):
            if run.failure is None or self.may_read_errors(run.ref, run.job, run):
                return run_view(run, **given)
            beside = given.pop("beside", None)
            known = None if beside is None else replace(beside, attempts=masked_attempts(beside.attempts))
            return run_view(without_text(run), beside=known, masked=True, **given)
        beside = given.pop("beside", None)
        hidden = given | {"payload": None, "result": None}
        return run_view(
            masked_run(run), beside=None if beside is None else masked_siblings(beside), masked=True, **hidden
        )

    def dead_view(self, dead: DeadRunRow) -> DeadRun:
        """The same for a line of the list of dead runs."""
        if self.may_read_errors(dead.run, dead.job):
            return dead_view(dead)
        return dead_view(masked_dead(dead), masked=True)

    def read_run(self, run_id: str, verb: Verb) -> RunRow:
        """As ``read_run``."""
        return read_run(self._session, self._tenant, run_id, verb)

    def head(self, name: str, verb: Verb) -> Head:
        """The head of a schedule that is not deleted, for which the caller has a verb. Raises InvalidInput, Forbidden, NotFound."""
        permit = self.head_check(verb, name)
        head = self._session.services.schedules.head(self._tenant, check_name(name))
        permit(head)
        if head is None or head.state is ScheduleState.DELETED:
            raise self.no_schedule(name)
        return head

    def may_read_payloads(self, job: str) -> bool:
        """Whether the caller may see payloads and results of a job."""
        return self.may(Verb.READ_PAYLOADS, job)

    def may_read_task(self, job: str) -> bool:
        """The same of a task's job. A pipeline as a task tells of tasks that are not looked at: for who may read those of all jobs."""
        return self.may(Verb.READ_PAYLOADS, None if job.startswith(PIPELINE) else job)

    def may_read_errors(self, ref: RunRef, job: str, run: RunRow | None = None) -> bool:
        """Whether the caller may see the texts of a run's errors: a pipeline's run has those of its tasks. ``run``: if it was read."""
        allowance = self._session.gate.allowance(ref.tenant, self._session.caller, Verb.READ_PAYLOADS)
        if not job.startswith(PIPELINE) or allowance.covers(None) or not allowance.covers(job):
            return allowance.covers(job)
        from quarterjack.owner.runs.pipelines import pipeline_of_run  # noqa: PLC0415 (who has no pipeline does not load it)

        services = self._session.services
        found = services.ledger.read(ref) if run is None else run
        try:
            tasks = () if found is None else pipeline_of_run(found, services).graph.tasks
        except NotFound:  # its revision is gone
            return False
        return found is not None and all(task.pipeline is None and allowance.covers(task.runs) for task in tasks)

    def check_schedule(self, verb: Verb, name: str) -> None:
        """Raises Forbidden unless the caller has a verb for a schedule: its head is read for a caller with grants for some jobs only."""
        permit = self.head_check(verb, name)
        if self.is_limited(verb):
            permit(self._session.services.schedules.head(self._tenant, check_name(name)))

    def no_schedule(self, name: str) -> NotFound:
        if not self.may(Verb.READ_SCHEDULES):
            return NotFound(f"name={name!r}: tenant {self._tenant!r} has no schedule of that name")
        page = self._session.services.schedules.page(self._tenant, prefix=name[:1], limit=_NEIGHBOURS, cursor=None)
        names = [head.name for head in page.items if head.state is not ScheduleState.DELETED]
        near = [repr(other) for other in get_close_matches(name, names)]
        remedy = f"did you mean {' or '.join(near)}?" if near else "list_schedules() shows the existing ones"
        return NotFound(f"name={name!r}: tenant {self._tenant!r} has no schedule of that name; {remedy}")


_NEIGHBOURS = 200  # existing names that an unknown name is compared with


def read_run(session: Session, tenant: str, run_id: str, verb: Verb) -> RunRow:
    """A run of a tenant for which the caller has a verb. Raises InvalidInput, Forbidden, NotFound."""
    what = f"run {shorten(run_id, 300)}"
    session.gate.check_some(tenant, session.caller, verb, what=what)
    ref = parse_run_id(run_id)
    run = session.services.ledger.read(ref) if ref.tenant == tenant else None
    session.gate.check_seen(tenant, session.caller, verb, None if run is None else run.job, what)
    if run is None:
        raise NotFound(
            f"run_id={run_id!r}: tenant {tenant!r} has no such run, or its retention is over; list_runs() shows those it has"
        )
    return run


def masked_run(run: RunRow) -> RunRow:
    """A run without payload, result and the texts of its failure. The class and the code of the error stay."""
    run = without_text(run)
    if run.state is RunState.SKIPPED and run.parent is not None:
        from quarterjack.state.pipelines.decide import NOT_MADE  # noqa: PLC0415 (who has no pipeline does not load it)

        if (run.reason or "").startswith(NOT_MADE):  # what follows has values of other tasks
            run = replace(run, reason=NOT_MADE.rstrip(": "))
    return replace(run, payload=None, payload_ref=None, result=None, result_ref=None)


def without_text(run: RunRow) -> RunRow:
    """A run without the text of its failure."""
    return run if run.failure is None else replace(run, failure=_masked_failure(run.failure))


def masked_siblings(rows: SiblingRows) -> SiblingRows:
    """The rows beside a run without results and the texts of failures."""
    return replace(rows, result=None, steps={}, checkpoint=None, attempts=masked_attempts(rows.attempts))


def masked_attempts(attempts: Iterable[FailedAttemptRow]) -> tuple[FailedAttemptRow, ...]:
    """Failed attempts without the texts of their failures."""
    return tuple(replace(attempt, failure=_masked_failure(attempt.failure)) for attempt in attempts)


def masked_dead(dead: DeadRunRow) -> DeadRunRow:
    """A line of the list of dead runs without the text of its error."""
    return replace(dead, error=None)


def _masked_failure(failure: Failure) -> Failure:
    return replace(failure, message="", traceback="")
