"""SDK method ``submit``: a one-off, and at most one at a time if it has a unique key."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from quarterjack.arguments import due_time
from quarterjack.domain.job import Context
from quarterjack.domain.names import PIPELINE, check_name, one_off_ref
from quarterjack.domain.policies import (
    DeliveryWord,
    OnDuplicate,
    OnDuplicateWord,
    Overrides,
    PriorityWord,
    Retry,
    StartWord,
    overrides,
)
from quarterjack.domain.policies.flow import Flow
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.limits import RateWord
from quarterjack.domain.times import SECOND
from quarterjack.errors import InvalidInput, NotFound
from quarterjack.owner.runs import submit as submitting
from quarterjack.owner.runs.submit import SameTime
from quarterjack.sdk.base import NONE, SchedulerBase
from quarterjack.sdk.requests import PendingPayload
from quarterjack.sdk.views import Run
from quarterjack.values import replace

if TYPE_CHECKING:
    from quarterjack.state.waits.unique import UniqueSpec

_T = TypeVar("_T")


class SubmitMethods(SchedulerBase):
    def submit(
        self,
        job: str | Callable[[Context, _T], object],
        payload: _T = NONE,
        *,
        run_at: datetime | None = None,
        delay: float | timedelta | None = None,
        idempotency_key: str | None = None,
        unique: str | None = None,
        unique_for: float | timedelta | None = None,
        on_duplicate: OnDuplicateWord | None = None,
        delivery: DeliveryWord | None = None,
        start: StartWord | None = None,
        priority: PriorityWord | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        deadline: float | None = None,
        flow: Flow | None = None,
        queue: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Run:
        """Run a job once: now, at ``run_at`` (aware), or after ``delay`` (seconds or timedelta), in ``queue`` (default: its job's).

        ``job`` is its name, or its function: then a type checker compares ``payload`` with the function's annotation. ``payload`` is any
        JSON value, or what the job's payload is annotated with: an instance of a dataclass, a Pydantic model.

        >>> from dataclasses import dataclass
        >>> from datetime import UTC, datetime
        >>> from quarterjack import Context, Registry
        >>> from quarterjack.testing import Harness
        >>> jobs = Registry()
        >>> @dataclass
        ... class Letter:
        ...     to: str
        ...     copies: int = 1
        >>> @jobs.job("letters.print")
        ... def print_letter(ctx: Context, payload: Letter) -> str:
        ...     return f"{payload.copies} for {payload.to}"
        >>> harness = Harness(jobs, at=datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
        >>> run = harness.scheduler.submit(print_letter, Letter("Ada"), delay=60)
        >>> [run.result for run in harness.advance(minutes=1)]
        ['1 for Ada']
        >>> harness.scheduler.submit("letters.print", {"to": "Ada", "copies": "two"})
        Traceback (most recent call last):
        quarterjack.errors.InvalidInput: payload.copies='two': does not fit 'letters.print'; give a valid integer

        ``tags`` are labels to find the run by, beside its job and state: ``list_runs(tag=…)``, ``bulk_runs``.

        With an ``idempotency_key`` a second call returns the same run instead of a second one, for as long as the ledger keeps it.

        With ``unique`` at most one run of the job has that key until it has ended, or for ``unique_for`` (seconds or timedelta) from its
        submission. ``on_duplicate`` says what becomes of a second submission meanwhile: "return" (default) that run; "refuse": Conflict;
        "replace": that run gets this payload, time and policies if it has not begun, else Conflict; "after": one more run starts when
        that one has ended, and further submissions give their payload to this one.

        Raises InvalidInput, Conflict, KeyReused (the idempotency key has another job, payload, policy, queue, ``run_at`` or ``delay``),
        Unavailable (try again).
        """
        now = self.session.clock()
        due = due_time(run_at, delay, now)
        given = overrides(
            delivery=delivery,
            start=start,
            priority=priority,
            retry=retry,
            timeout=timeout,
            deadline=deadline,
            flow=flow,
        )
        run_id = uuid.uuid4().hex if idempotency_key is None else check_name(idempotency_key, "idempotency_key")
        spec = _unique_spec(unique, unique_for, on_duplicate, idempotency_key, self.session.services.retention)
        self._access.check(Verb.SUBMIT, self._checks.named_job(job))
        name = self._checks.job_name(job)
        run, pending = self._ordered(name, payload, run_id, (now, due), given, queue)
        run = replace(run, tags=self._run_tags(tags))
        self._take(RateWord.RUNS)
        same_time = SameTime.DELAY if run_at is None else SameTime.DUE
        if spec is not None:
            from quarterjack.owner.runs.unique import submit_unique  # noqa: PLC0415 (who has no unique keys does not load it)

            run, keyed = replace(run, unique=spec.key), idempotency_key is not None
            done = submit_unique(run, pending.of_run, spec, self._context, same_time=same_time, keyed=keyed)
            return self._access.run_view(done)
        text, ref = pending.of_run(run.ref)
        run = replace(run, payload=text, payload_ref=ref)
        return self._access.run_view(submitting.submit(run, self._context, same_time=same_time))

    def _ordered(
        self, job: str, payload: Any, run_id: str, times: tuple[int, int], given: Overrides, queue: str | None
    ) -> tuple[RunRow, PendingPayload]:
        """A checked one-off without its payload, and that. ``times``: now and when it is due (UTC ms). Raises InvalidInput, Unavailable."""
        now, due = times
        policies, queue_name = self._checks.with_job_words(job, given), self._checks.queue_name(job, queue)
        pending = self._checked(job, payload)
        self._checks.may_run(job)
        ref = one_off_ref(self.tenant, run_id)
        run = RunRow(
            ref=ref,
            state=RunState.QUEUED,
            revision=0,
            job=job,
            due=due,
            not_before=due,
            created_at=now,
            overrides=policies.encode(),
            actor=self.session.caller.actor,
            queue=queue_name,
            awaits=self._awaited(job),
            app_version=self.session.services.tenants.app_versions.current(now).assigned(str(ref)),
        )
        return run, pending

    def _awaited(self, job: str) -> str | None:
        """Of the job of a pipeline the tasks that its run waits for, as they are now. Raises NotFound, Unavailable."""
        if not job.startswith(PIPELINE):
            return None
        from quarterjack.fires.pipelines.rows import awaited_by  # noqa: PLC0415 (who submits no pipeline does not load it)

        try:
            return awaited_by(self.tenant, job.removeprefix(PIPELINE), self.session.services)
        except NotFound as problem:
            raise NotFound(f"job={job!r}: {problem}; list_pipelines() shows the existing ones") from None


def _unique_spec(
    key: str | None, span: float | timedelta | None, on_duplicate: str | None, idempotency_key: str | None, longest: int
) -> UniqueSpec | None:
    """What a call asks for; None: no uniqueness. ``longest``: ms. Raises InvalidInput."""
    if key is None:
        for field, value in (("unique_for", span), ("on_duplicate", on_duplicate)):
            if value is not None:
                raise InvalidInput(field, value, "was given without unique", "give unique, a key, or leave it out")
        return None
    from quarterjack.state.waits.unique import UniqueSpec  # noqa: PLC0415 (as above)

    check_name(key, "unique")
    known = [each.value for each in OnDuplicate]
    if on_duplicate is not None and on_duplicate not in known:
        raise InvalidInput("on_duplicate", on_duplicate, "is not known", f"use {', '.join(map(repr, known))}")
    act = OnDuplicate(on_duplicate or OnDuplicate.RETURN)
    if idempotency_key is not None and act in (OnDuplicate.REPLACE, OnDuplicate.AFTER):
        problem = f"was given with on_duplicate={act.value!r}, whose payload may go to a run that has another id"
        raise InvalidInput("idempotency_key", idempotency_key, problem, "leave it out")
    if span is not None and act is OnDuplicate.AFTER:
        remedy = "leave unique_for out, or use another on_duplicate"
        raise InvalidInput("on_duplicate", on_duplicate, "was given with unique_for", remedy)
    return UniqueSpec(key=key, span=None if span is None else _span(span, longest), on_duplicate=act)


def _span(span: Any, longest: int) -> int:
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= longest / SECOND:
        remedy = f"give seconds or a timedelta, at most the retention of {longest // SECOND:,} s"
        raise InvalidInput("unique_for", span, "is not a length of time", remedy)
    return max(round(seconds * SECOND), 1)
