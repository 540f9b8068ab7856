"""What the SDK returns: schedules and runs with aware datetimes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from minutehand.domain.dead_run import DeadRunRow as IndexedRun
from minutehand.domain.formats.schema import reading
from minutehand.domain.run import FailedAttemptRow, RunState, SiblingRows
from minutehand.domain.run import RunRow as LedgerRun
from minutehand.domain.schedule import Head, Revision, ScheduleState
from minutehand.domain.times import from_ms
from minutehand.timing import zone


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A schedule as its owner sees it. Listings leave ``payload``, ``last_fired_at`` and ``next_fires`` out."""

    tenant: str  # whose
    name: str  # unique within the tenant
    state: ScheduleState  # ACTIVE, PAUSED, COMPLETED (no further fire) or DELETED
    job: str  # name of its job
    expression: str  # when it is due
    timezone: str  # the zone that the expression is read in
    payload: Any = None  # what the job is given
    description: str = ""  # free text
    tags: Mapping[str, str]  # free words
    note: str | None = None  # why it was paused
    resume_at: datetime | None = None  # UTC: when its pause ends by itself
    managed_by: str | None = None  # the package or file that it is declared in
    failing: int = 0  # how many runs in a row failed for good, as of the last that did; 0 after a success
    failed_at: datetime | None = None  # UTC: the last of these
    failed_run: str | None = None  # its id
    incident: str | None = None  # id of the incident that goes on; None: all is well
    revision: int  # number of the current revision
    version: int  # raised by every change
    created_at: datetime  # UTC
    updated_at: datetime  # UTC
    last_fired_at: datetime | None = None  # of the last run that started, in the schedule's zone
    next_fires: Sequence[datetime] = ()  # the next five, in the schedule's zone; empty unless ACTIVE


@dataclass(frozen=True, kw_only=True)
class FailedAttempt:
    """One attempt that failed."""

    number: int  # 1, 2, 3 …
    worker: str  # which process
    started_at: datetime  # UTC: when its lease was taken
    ended_at: datetime  # UTC
    error_type: str  # class of the exception
    error: str  # its message
    error_code: str | None  # its code or HTTP status
    traceback: str  # its end
    permanent: bool  # whether it was classified as not worth another attempt
    next_attempt_at: datetime | None  # UTC; None if it was the last

    def __str__(self) -> str:
        return f"{self.number}  {self.ended_at:%Y-%m-%d %H:%M:%S}Z  {self.error_type}: {self.error}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run as its owner sees it."""

    id: str  # pass it to get_run
    tenant: str  # whose
    schedule: str | None  # name of its schedule; None for a one-off
    revision: int  # of the schedule; 0 for a one-off
    state: RunState  # where it stands
    job: str  # name of its job
    due: datetime  # UTC
    not_before: datetime  # UTC: no attempt starts before it
    started_at: datetime | None  # UTC, of the first attempt
    ended_at: datetime | None  # UTC
    attempt: int  # attempts begun
    fence: int  # leases taken
    reason: str | None  # why it is in this state
    error_type: str | None  # class of the last failure
    error: str | None  # its message
    error_code: str | None = None  # its code or HTTP status
    payload: Any = None  # one-offs only: what the job is given
    result: Any = None  # what the job returned
    progress: float | None = None  # 0 to 1, as of the last heartbeat
    stage: str | None = None  # what the job is at, as of the last heartbeat
    slices: int = 0  # slices that ended at a checkpoint
    cancel_requested: bool = False  # its owner asked for its cancellation
    replay_of: str | None = None  # id of the run that this one repeats
    missed: bool = False  # the scheduler came to its fire more than a minute late
    backfill: str | None = None  # id of the backfill that it belongs to
    skipped: int | None = None  # the row of a gap only: how many missed fires were passed over, from ``due`` on
    skipped_until: datetime | None = None  # the row of a gap only: UTC, the last of them
    steps: Mapping[str, Any] = field(default_factory=dict)  # recorded results by name; get_run only
    failed_attempts: Sequence[FailedAttempt] = ()  # oldest first; get_run only

    @property
    def lateness(self) -> timedelta | None:
        """From due to the first start; None before it."""
        return None if self.started_at is None else self.started_at - self.due


@dataclass(frozen=True, kw_only=True)
class DeadRun:
    """A run that failed for good, as the list of dead runs shows it; ``get_run`` tells more."""

    id: str  # pass it to get_run, replay_run or redrive
    tenant: str  # whose
    schedule: str | None  # name of its schedule; None for a one-off
    job: str  # name of its job
    ended_at: datetime  # UTC: when it died
    attempts: int  # begun
    reason: str  # why it is in its state
    state: RunState = RunState.DEAD  # or LOST (at most once, its worker vanished), EXPIRED (its deadline passed)
    error_type: str | None  # class of the last failure; None if no attempt failed, e.g. if its process died
    error: str | None  # its message, bounded
    redriven_as: str | None  # id of the run that repeats it


@dataclass(frozen=True, kw_only=True)
class Redriven:
    """What ``redrive`` did."""

    runs: Sequence[DeadRun]  # dead runs that are repeated now, or would be (dry run)
    failed: Mapping[str, str]  # dead runs by id that cannot be repeated, and why
    dry_run: bool  # True: nothing was written
    cursor: str | None = None  # where to go on if it ended early (``limit``, ``stop``); None: all was looked at

    @property
    def count(self) -> int:
        """How many runs are repeated."""
        return len(self.runs)


@dataclass(frozen=True, kw_only=True)
class Page:
    """Some items in a stable order; pass ``cursor`` for the next ones, None means there are none."""

    items: Sequence[Any]
    cursor: str | None = None


def schedule_view(
    head: Head,
    revision: Revision | None = None,
    *,
    payload: str | None = None,
    last_fired: int | None = None,
    upcoming: Sequence[int] = (),
) -> Schedule:
    """The public form of a head, with what else is known."""
    local = zone(head.timezone)
    return Schedule(
        tenant=head.tenant,
        name=head.name,
        state=head.state,
        job=head.job,
        expression=head.expression,
        timezone=head.timezone,
        payload=_value(payload) if revision is not None else None,
        description=head.description,
        tags=dict(head.tags),
        note=head.note,
        resume_at=None if head.resume_at is None else from_ms(head.resume_at),
        managed_by=head.managed_by,
        failing=head.failing,
        failed_at=None if head.failed_at is None else from_ms(head.failed_at),
        failed_run=head.failed_run,
        incident=head.incident,
        revision=head.revision,
        version=head.version,
        created_at=from_ms(head.created_at),
        updated_at=from_ms(head.updated_at),
        last_fired_at=None if last_fired is None else from_ms(last_fired, local),
        next_fires=[from_ms(fire, local) for fire in upcoming],
    )


def run_view(
    run: LedgerRun, *, payload: str | None = None, result: str | None = None, beside: SiblingRows | None = None
) -> Run:
    """The public form of a ledger row, with what else is known. Raises Unreadable for a row that garbage was written into."""
    with reading(f"run {run.ref}", {}):
        return _run_view(run, payload, result, beside or SiblingRows())


def _run_view(run: LedgerRun, payload: str | None, result: str | None, beside: SiblingRows) -> Run:
    return Run(
        id=str(run.ref),
        tenant=run.ref.tenant,
        schedule=None if run.ref.is_one_off else run.ref.owner.partition("/")[2],
        revision=run.revision,
        state=run.state,
        job=run.job,
        due=from_ms(run.due),
        not_before=from_ms(run.not_before),
        started_at=None if run.started_at is None else from_ms(run.started_at),
        ended_at=None if run.ended_at is None else from_ms(run.ended_at),
        attempt=run.attempt,
        fence=run.fence,
        reason=run.reason,
        error_type=run.failure.kind if run.failure else None,
        error=run.failure.message if run.failure else None,
        error_code=run.failure.code if run.failure else None,
        payload=_value(payload or run.payload),
        result=_value(result or run.result),
        progress=run.progress,
        stage=run.stage,
        slices=run.slices,
        cancel_requested=run.cancel_requested,
        replay_of=run.replay_of,
        missed=run.missed,
        backfill=run.backfill,
        skipped=run.skipped,
        skipped_until=None if run.skipped_until is None else from_ms(run.skipped_until),
        steps={name: json.loads(text) for name, text in beside.steps.items()},
        failed_attempts=[_attempt_view(attempt) for attempt in beside.attempts],
    )


def dead_view(dead: IndexedRun) -> DeadRun:
    """The public form of a line of the index."""
    return DeadRun(
        id=str(dead.run),
        tenant=dead.run.tenant,
        schedule=dead.schedule,
        job=dead.job,
        ended_at=from_ms(dead.ended_at),
        attempts=dead.attempts,
        reason=dead.reason,
        state=dead.state,
        error_type=dead.error_type,
        error=dead.error,
        redriven_as=dead.redriven_as,
    )


def _attempt_view(attempt: FailedAttemptRow) -> FailedAttempt:
    again = attempt.next_attempt_at
    return FailedAttempt(
        number=attempt.number,
        worker=attempt.worker,
        started_at=from_ms(attempt.started_at),
        ended_at=from_ms(attempt.ended_at),
        error_type=attempt.failure.kind,
        error=attempt.failure.message,
        error_code=attempt.failure.code,
        traceback=attempt.failure.traceback,
        permanent=attempt.failure.permanent,
        next_attempt_at=None if again is None else from_ms(again),
    )


def _value(text: str | None) -> Any:
    """The value of a stored text. Raises Unreadable."""
    if text is None:
        return None
    with reading("payload", {}):
        return json.loads(text)
