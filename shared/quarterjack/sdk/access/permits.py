"""The checks that every method of the SDK makes first, and what a caller sees who may not read payloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from quarterjack.domain.run import DeadRunRow, RunRow
from quarterjack.domain.schedule import Head
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.errors import InvalidInput, shorten
from quarterjack.sdk.access.masking import masked_dead, masked_run, masked_siblings
from quarterjack.sdk.session import Session
from quarterjack.sdk.views import DeadRun, Run, dead_view, run_view

_T = TypeVar("_T")
_NAMING = (Verb.READ_INSTALLATION, Verb.READ_SCHEDULES, Verb.SUBMIT, Verb.CREATE, Verb.UPDATE)


class Permits:
    """Methods of ``Scheduler`` about its caller's grants for its tenant. The profile behind them is read once in five seconds."""

    tenant: str
    session: Session

    def _permit(self, verb: Verb, job: str | None = None, *, what: str | None = None) -> None:
        """Raises Forbidden unless the caller has a verb for a job; None: for all jobs at once. ``what`` is what it is to be used on."""
        self.session.gate.check(self.tenant, self.session.caller, verb, job, what=what)

    def _permit_some(self, verb: Verb, *, what: str | None = None) -> None:
        """Raises Forbidden unless the caller has a verb for some job."""
        self.session.gate.check_some(self.tenant, self.session.caller, verb, what=what)

    def _permit_all_tenants(self, verb: Verb) -> None:
        """Raises Forbidden unless the caller has a verb by a grant of the installation, if that has any.

        Without any, tenants with grants of their own are left out of what is answered: see ``_visible_of_all``.
        """
        self.session.gate.check(INSTALLATION, self.session.caller, verb)

    def _permit_head(self, verb: Verb, name: str) -> Callable[[Head | None], None]:
        """A check of the schedule of that name, before something is done to it: None stands for none.

        Raises Forbidden at once if the caller has the verb for no job.
        """
        what = f"schedule {shorten(name, 300)}"
        self._permit_some(verb, what=what)

        def check(head: Head | None) -> None:
            self._permit_seen(verb, None if head is None else head.job, what)

        return check

    def _permit_seen(self, verb: Verb, job: str | None, what: str) -> None:
        """Raises Forbidden unless the caller has a verb for the job of a thing that was found; None: there is no such thing."""
        self.session.gate.check_seen(self.tenant, self.session.caller, verb, job, what)

    def _may(self, verb: Verb, job: str | None = None, tenant: str | None = None) -> bool:
        """Whether the caller has a verb for a job, or for all jobs; of this tenant, unless another is given. Nothing is audited."""
        return self.session.may(tenant or self.tenant, verb, job)

    def _is_limited(self, verb: Verb) -> bool:
        """Whether the caller has a verb for some jobs only."""
        return not self._may(verb)

    def _visible(self, rows: Iterable[_T], verb: Verb, job: Callable[[_T], str]) -> list[_T]:
        """Those of this tenant's rows whose jobs the caller has a verb for."""
        found = self.session.gate.allowance(self.tenant, self.session.caller, verb)
        return list(rows) if found.covers(None) else [row for row in rows if found.covers(job(row))]

    def _visible_of_all(self, runs: Iterable[RunRow], verb: Verb) -> list[RunRow]:
        """Those runs of any tenant for whose tenant and job the caller has a verb."""
        return [run for run in runs if self._may(verb, run.job, run.ref.tenant)]

    def _nameable(self, jobs: Iterable[str]) -> Iterable[str]:
        """Those jobs that an error may name to this caller: it has some verb for them."""
        found = [self.session.gate.allowance(self.tenant, self.session.caller, verb) for verb in _NAMING]
        return [job for job in jobs if any(one.covers(job) for one in found)]

    # Views.

    @contextmanager
    def _without_values(self, job: str) -> Iterator[None]:
        """Within this, an InvalidInput about a stored payload does not show it to a caller who may not read it."""
        try:
            yield
        except InvalidInput:
            if self._may(Verb.READ_PAYLOADS, job):
                raise
            problem = f"that is stored does not fit {job!r}"
            remedy = f"pass another payload, or ask somebody who may {Verb.READ_PAYLOADS} what is wrong with it"
            raise InvalidInput("payload", "(masked)", problem, remedy) from None

    def _run_view(self, run: RunRow, **given: Any) -> Run:
        """The public form of a run, without payload, result, steps and texts of errors if the caller may not read them."""
        if self._may(Verb.READ_PAYLOADS, run.job, run.ref.tenant):
            return run_view(run, **given)
        beside = given.pop("beside", None)
        hidden = given | {"payload": None, "result": None}
        return run_view(
            masked_run(run), beside=None if beside is None else masked_siblings(beside), masked=True, **hidden
        )

    def _dead_view(self, dead: DeadRunRow) -> DeadRun:
        """The same for a line of the list of dead runs."""
        if self._may(Verb.READ_PAYLOADS, dead.job, dead.run.tenant):
            return dead_view(dead)
        return dead_view(masked_dead(dead), masked=True)
