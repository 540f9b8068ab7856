"""SDK methods that change one schedule. Each call is one transaction, or no write if nothing changes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, Unpack

from quarterjack.arguments import end_time, rule_of
from quarterjack.domain.job import Context, JobRef
from quarterjack.domain.names import check_flag, check_name, schedule_owner
from quarterjack.domain.options import Options, changed
from quarterjack.domain.policies import Overrides, split_words
from quarterjack.domain.schedule import Definition, Head
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.limits import RateWord
from quarterjack.errors import Forbidden, InvalidInput, NotFound, shorten
from quarterjack.owner.limits import check_priority
from quarterjack.owner.schedules import arm as creating
from quarterjack.owner.schedules import stop as closing
from quarterjack.sdk.base import NONE, UNSET, SchedulerBase
from quarterjack.sdk.pipelines.unseen import with_values_seen
from quarterjack.sdk.requests import ScheduleRequest, ScheduleWords, changed_rule, either
from quarterjack.sdk.schedule_views import Schedule, Upserted, schedule_view
from quarterjack.timing import Rule
from quarterjack.values import replace

_T = TypeVar("_T")


class ScheduleMethods(SchedulerBase):
    """Schedules of one tenant.

    Every change takes ``expected_revision``: if another revision is current, Conflict names both. Given the Schedule that was read,
    any later change of it is a Conflict, of its description and tags, too, and of its incidents.
    It also takes a ``client_token``, any text: repeating the call with it within 24 hours returns the first result and changes
    nothing; a different call with the same token raises AlreadyExists.
    """

    def create_schedule(
        self,
        name: str,
        job: str | Callable[[Context, _T], object],
        expression: str | Sequence[str] | Rule,
        *,
        timezone: str | None = None,
        payload: _T = NONE,
        description: str = "",
        tags: Mapping[str, str] | None = None,
        client_token: str | None = None,
        **words: Unpack[ScheduleWords],
    ) -> Schedule:
        """Create a schedule. Its first fire may be due a few seconds from now.

        ``expression`` is cron ("0 9 * * MON-FRI"), ``rate(5 minutes)``, ``at(2026-12-24T18:00:00)`` or a recurrence rule, read in
        ``timezone`` (default UTC); several expressions are combined with OR. A ``Rule`` adds exclusions, holidays, windows
        and the behaviour at clock changes.
        ``job`` is the job's name, or its function: then a type checker compares ``payload`` with the function's annotation.
        ``payload`` is any JSON value, up to 256 KB and 64 levels of lists and dicts, or what the job's payload is annotated with: an
        instance of a dataclass, a Pydantic model. ``words`` are ``delivery``, ``start``, ``retry``,
        ``timeout`` and ``deadline``, which override the job's own, and the options: ``queue``, ``catch_up``, ``overlap`` …
        Raises InvalidInput (ExpressionError for expression and zone), AlreadyExists, Unavailable.
        """
        self._access.check(Verb.CREATE, self._checks.named_job(job), what=f"schedule {shorten(name, 300)}")
        request = self._request(name, job, expression, timezone, payload, description, tags, words)
        call = self._call("create_schedule", _anything, name, None, client_token, request)
        self._take(RateWord.CHANGES)
        return schedule_view(creating.create(call, request.spec(), self._context))

    def upsert_schedule(
        self,
        name: str,
        job: str | Callable[[Context, _T], object],
        expression: str | Sequence[str] | Rule,
        *,
        timezone: str | None = None,
        payload: _T = NONE,
        description: str = "",
        tags: Mapping[str, str] | None = None,
        keep_payload: bool = False,
        managed_by: str | None = None,
        expected_revision: int | Schedule | None = None,
        client_token: str | None = None,
        **words: Unpack[ScheduleWords],
    ) -> Upserted:
        """Create a schedule, or update it to these arguments; an argument that is left out has its default. Writes only differences.

        ``change`` is "created", "updated" or "unchanged". A paused schedule stays paused. ``managed_by`` is the package or file
        that declares it; None keeps the stored one. With ``expected_revision`` the schedule must exist, as with ``keep_payload``,
        which keeps the stored payload, also for a caller who may not read it. Such a caller must give a payload or ``keep_payload``
        if the schedule has a payload: the view that it has read shows none.
        Raises InvalidInput, NotFound, Conflict, AlreadyExists, Forbidden, Unavailable.
        """
        permit = self._access.upsert_check(name, self._checks.named_job(job))
        given = _kept(payload) if check_flag("keep_payload", keep_payload) else payload
        request = self._request(name, job, expression, timezone, given, description, tags, words, managed_by)
        call = self._call("upsert_schedule", permit, name, expected_revision, client_token, request)
        spec = request.spec()
        if payload is NONE:
            spec = self._without_payload(spec, name, keep=keep_payload)
        spec = replace(spec, definition=with_values_seen(spec.definition, name, self.tenant, self._access))
        self._take(RateWord.CHANGES)
        done = creating.upsert(call, spec, self._context)
        return Upserted(schedule=schedule_view(done.head), change=str(done.change))

    def _without_payload(self, spec: creating.ScheduleSpec, name: str, *, keep: bool) -> creating.ScheduleSpec:
        """The spec of an upsert that gives no payload. With ``keep`` the stored one stays, and has to fit the job that it gets.

        Without, it is removed, but not for a caller who may not read it and therefore has not seen it.
        """

        def define(present: Definition | None) -> Definition:
            if keep and present is None:
                raise NotFound(f"name={name!r}: there is no payload to keep")
            made = spec.definition(present)
            if keep and made != present:
                self._checks.check_stored(made.job, made.payload, made.payload_ref)
            if (
                not keep
                and present is not None
                and present.has_payload
                and not self._access.may_read_payloads(present.job)
            ):
                remedy = "give a payload, keep the stored one (keep_payload=True), or ask for read-payloads"
                problem = (
                    f"name={name!r}: you may not read its payload, so leaving it out would remove it unseen; {remedy}"
                )
                raise Forbidden(problem, verb=Verb.READ_PAYLOADS, tenant=self.tenant, job=present.job)
            return made

        return replace(spec, definition=define)

    def _request(
        self,
        name: str,
        job: JobRef,
        expression: str | Sequence[str] | Rule,
        timezone: str | None,
        payload: Any,
        description: str,
        tags: Mapping[str, str] | None,
        words: ScheduleWords,
        managed_by: str | None = None,
    ) -> ScheduleRequest:
        check_name(name)
        job_name = self._checks.job_name(job)
        pending = None if payload is UNSET else self._checked(job_name, payload)
        policies, chosen = split_words(words)
        rule, options = rule_of(expression, timezone), self._checks.options(job_name, chosen)
        self._checks.may_run(job_name)
        queue = self._jobs.find_queue(options.queue)
        if queue is not None and not rule.window and not rule.jitter and not rule.plan.is_manual:
            rule = replace(rule, window=queue.spread)
        return ScheduleRequest(
            owner=schedule_owner(self.tenant, name),
            job=job_name,
            rule=rule,
            overrides=self._checks.with_job_words(job_name, policies),
            options=self._with_tasks(name, job_name, options, policies),
            description=self._text("description", description),
            tags=self._tags({} if tags is None else tags),
            managed_by=None if managed_by is None else check_name(managed_by, "managed_by"),
            payload=pending,
        )

    def update_schedule(
        self,
        name: str,
        *,
        job: str | Callable[[Context, _T], object] | None = None,
        expression: str | Sequence[str] | Rule | None = None,
        timezone: str | None = None,
        payload: _T = UNSET,
        description: str | None = None,
        tags: Mapping[str, str] | None = None,
        expected_revision: int | Schedule | None = None,
        client_token: str | None = None,
        **words: Unpack[ScheduleWords],
    ) -> Schedule:
        """Give a schedule a new revision; an argument that is left out keeps its value. A paused schedule stays paused.

        Fires after the call are those of the new revision; earlier fires stay. Description and tags belong to the schedule, not
        to a revision: changing only these makes no revision. A call that changes nothing writes nothing.
        Raises InvalidInput, NotFound, Conflict (with ``expected_revision``: if another one is current), AlreadyExists, Unavailable.
        """
        permit = self._access.head_check(Verb.UPDATE, name)
        if job is not None:
            self._access.check(Verb.UPDATE, self._checks.named_job(job), what=f"schedule {shorten(name, 300)}")
        job_name = None if job is None else self._checks.job_name(job)
        policies, options = split_words(words)
        checked = changed(Options(), options)  # before anything is stored
        check_priority(policies.priority, self.tenant, self.session.services, self.session.clock())
        self._checks.check_notified_jobs(checked, options)
        if checked.queue is not None:
            self._checks.queue_name("", checked.queue)
        pending = None if payload is UNSET else self._pending(payload, job_name)
        description = None if description is None else self._text("description", description)
        tags = None if tags is None else self._tags(tags)
        arguments = (job_name, expression, timezone, pending, description, tags, policies, options)
        call = self._call("update_schedule", permit, name, expected_revision, client_token, *arguments)

        def define(present: Definition | None) -> Definition:
            if present is None:
                raise NotFound(f"name={name!r}: there is nothing to update")
            new_job = either(job_name, present.job)
            self._checks.may_run(new_job)
            if pending is None:
                text, ref = present.payload, present.payload_ref
            else:
                self._checks.check_payload(new_job, payload, pending.text)
                text, ref = pending.of_schedule(schedule_owner(self.tenant, name), present)
            own = Overrides(**{n: either(one, getattr(present.overrides, n)) for n, one in vars(policies).items()})
            made = Definition(
                job=new_job,
                rule=changed_rule(present.rule, expression, timezone),
                payload=text,
                payload_ref=ref,
                overrides=own,
                options=self._with_tasks(name, new_job, self._checks.options_after(present, new_job, options), own),
            )
            if pending is None and made != present:
                self._checks.check_stored(new_job, text, ref)
            return made

        self._take(RateWord.CHANGES)
        spec = creating.ScheduleSpec(definition=define, description=description, tags=tags, seed=uuid.uuid4().hex)
        return schedule_view(creating.update(call, spec, self._context))

    def pause_schedule(
        self,
        name: str,
        *,
        reason: str | None = None,
        until: datetime | None = None,
        drain: bool = False,
        expected_revision: int | Schedule | None = None,
        client_token: str | None = None,
    ) -> Schedule:
        """Stop a schedule. After the return none of its runs starts; with ``drain=True``, runs that are already due still start.

        With ``until`` (aware) the schedule resumes at that time; pausing again replaces ``until``. ``reason`` is shown with the
        schedule and in the audit; left out, that of ``acting_as`` counts.
        Running attempts continue. Raises InvalidInput, NotFound, Conflict, AlreadyExists, Unavailable (then call again to
        finish). Without ``drain`` it reads the schedule's ledger, one query for each 1 MB.
        """
        permit = self._access.head_check(Verb.PAUSE, name)
        check_flag("drain", drain)
        text = None if reason is None else self._text("reason", reason)
        end = end_time(until, self.session.clock())
        call = self._call("pause_schedule", permit, name, expected_revision, client_token, text, end, drain)
        return schedule_view(closing.pause(call, self._context, reason=text, until=end, drain=drain))

    def resume_schedule(
        self, name: str, *, expected_revision: int | Schedule | None = None, client_token: str | None = None
    ) -> Schedule:
        """Resume a paused schedule from now on; an active one stays as it is.

        With ``automatic_backfill`` the fires of the pause are missed fires: all are run, or those that ``catch_up`` says.
        Raises InvalidInput, NotFound, ExpressionError (it has no further fire), Conflict, AlreadyExists, Unavailable.
        """
        call = self._call(
            "resume_schedule", self._access.head_check(Verb.RESUME, name), name, expected_revision, client_token
        )

        def allow(head: Head | None) -> None:
            call.check(head)
            if head is not None:
                self._checks.may_run(head.job)

        self._take(RateWord.CHANGES)
        return schedule_view(creating.resume(call, self._context, allow=allow))

    def delete_schedule(
        self,
        name: str,
        *,
        drain: bool = False,
        expected_revision: int | Schedule | None = None,
        client_token: str | None = None,
    ) -> None:
        """Delete a schedule; its runs stay readable by their ids. After the return none of its runs starts.

        Raises InvalidInput, NotFound (no schedule ever had this name), Conflict, AlreadyExists, Unavailable (then call again to finish).
        """
        permit = self._access.head_check(Verb.DELETE, name)
        call = self._call("delete_schedule", permit, name, expected_revision, client_token, check_flag("drain", drain))
        closing.delete(call, self._context, drain=drain)


def _anything(head: Head | None) -> None:
    """The check of what is there, where only the new schedule counts."""
    del head


def _kept(payload: Any) -> Any:
    """That the stored payload is kept. Raises InvalidInput for a payload beside it."""
    if payload is not NONE:
        raise InvalidInput("keep_payload", True, "is given with a payload", "leave one of the two out")
    return UNSET
