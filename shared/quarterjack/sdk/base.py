"""What the methods of ``Scheduler`` have in common: its tenant, its jobs, the limits of a call, and texts that will be stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, Self

from quarterjack.arguments import MAX_DESCRIPTION, checked_run_tags, checked_tags, checked_text
from quarterjack.clock import system_clock
from quarterjack.domain.names import check_flag, check_name, check_tenant, is_builtin
from quarterjack.domain.options import OnTaskFailure, Options
from quarterjack.domain.payload import text_of_tags
from quarterjack.domain.policies import Overrides
from quarterjack.domain.schedule import Definition, Head
from quarterjack.domain.tenants.caller import Via, ViaWord
from quarterjack.domain.tenants.limits import RateWord
from quarterjack.errors import InvalidInput
from quarterjack.fires.backpressure import RecentHolds
from quarterjack.fires.context import FireContext
from quarterjack.job_packages import registry_of
from quarterjack.jobs import Registry
from quarterjack.owner.limits import put_payload, take_place, throttle
from quarterjack.owner.schedules.client_tokens import ScheduleCall
from quarterjack.ports.services import Clock, Services
from quarterjack.sdk.caller_access import CallerAccess
from quarterjack.sdk.job_checks import JobChecks, JobSources
from quarterjack.sdk.requests import PendingPayload, checked_patience, refuse_secrets, token_of
from quarterjack.sdk.schedule_views import seen_of
from quarterjack.sdk.session import Connected, over
from quarterjack.settings import Settings
from quarterjack.values import replace

UNSET: Any = object()  # default of an argument for which None is a value
NONE: Any = None  # default of a payload, whose type is that of its job's


class SchedulerBase(Connected):
    """The tenant, its jobs, and the parts that the methods use: ``_access`` (the caller's grants) and ``_checks`` (jobs and payloads)."""

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
        self._holds = RecentHolds(session.services, clock)
        self._jobs = registry_of(jobs)
        self._sources = JobSources.of(self._jobs, session.services, clock)

    def strictly(self, *, strict: bool = True) -> Self:
        """A copy that refuses a job that neither this process nor any worker knows; with ``strict=False`` one that warns of it."""
        return over(self, replace(self.session, strict=check_flag("strict", strict)))

    def _with_tasks(self, name: str, job: str, options: Options, policies: Overrides) -> Options:
        """The options with what the jobs of tasks say of their queues and priorities. Raises InvalidInput, Forbidden, JobNotGranted."""
        if options.tasks is None and not is_builtin(job):
            if options.on_task_failure is not OnTaskFailure.HALT:
                word = str(options.on_task_failure)
                raise InvalidInput(
                    "on_task_failure", word, f"does not go with job {job!r}", "only pipelines have tasks"
                )
            return options
        from quarterjack.sdk.pipelines.checks import checked_tasks  # noqa: PLC0415 (who has no pipeline loads neither)
        from quarterjack.sdk.pipelines.nesting import check_nesting  # noqa: PLC0415 (as above)

        graph, checked = checked_tasks(name, job, options, policies, self._checks, self._access)
        check_nesting(job, graph, self.tenant, self.session)
        return checked

    def with_tenant(self, tenant: str) -> Self:
        """A copy for the schedules and runs of another tenant, that shares all connections. Raises InvalidInput."""
        other = copy(self)
        other.tenant = check_tenant(tenant)
        return other

    @property
    def _access(self) -> CallerAccess:
        return CallerAccess(self.session, self.tenant)

    @property
    def _checks(self) -> JobChecks:
        return JobChecks(self.session, self.tenant, self._sources, self._access)

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

    def _tags(self, tags: object, checked: Callable[[object], dict[str, str]] = checked_tags) -> dict[str, str]:
        """Tags that will be stored. Raises InvalidInput."""
        found = checked(tags)
        refuse_secrets("tags", lambda: found, self.tenant)
        return found

    def _run_tags(self, tags: object) -> str | None:
        """Tags of a run as its row has them; None: none were given. Raises InvalidInput."""
        return None if tags is None else text_of_tags(self._tags(tags, checked_run_tags))

    def _checked(self, job: str, payload: Any) -> PendingPayload:
        """A new payload for a job, checked as far as this process knows that. Raises InvalidInput."""
        pending = self._pending(payload, job)
        self._checks.check_payload(job, payload, pending.text)
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
