"""Return values of the SDK, with aware datetimes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from quarterjack.domain.history.dead_run import DeadRunRow
from quarterjack.domain.history.entry import RunKind, kind_of
from quarterjack.domain.message import reading
from quarterjack.domain.run import RunRow, RunState, SiblingRows
from quarterjack.domain.times import from_ms
from quarterjack.state.lease import has_live_lease, last_renewal
from quarterjack.state.waits.park import signal_of
from quarterjack.state.waits.terms import terms_of

_T = TypeVar("_T")
NO_TAGS: Mapping[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class FailedAttempt:
    """One attempt that failed."""

    number: int  # 1, 2, 3 …
    worker: str  # name of its process
    started_at: datetime  # UTC: when its lease was taken
    ended_at: datetime  # UTC
    error_type: str  # class of the exception
    error: str  # its message
    error_code: str | None  # its code or HTTP status
    traceback: str  # the last lines
    permanent: bool  # whether the error rules out another attempt
    next_attempt_at: datetime | None  # UTC; None if it was the last

    def __str__(self) -> str:
        return f"{self.number}  {self.ended_at:%Y-%m-%d %H:%M:%S}Z  {self.error_type}: {self.error}"


# Flat, because tables of the command line, JSON of the API and CSV files name its fields.
@dataclass(frozen=True, kw_only=True)
class Run:
    """A run as its owner sees it."""

    id: str  # pass it to get_run
    tenant: str  # its owner
    schedule: str | None  # name of its schedule; None for a one-off
    revision: int  # of the schedule; of a one-off: how often it was moved
    state: RunState  # QUEUED, RUNNING, SUCCEEDED …
    job: str  # name of its job
    kind: RunKind = RunKind.FIRE  # fire, one-off, trigger, backfill or replay
    due: datetime  # UTC
    not_before: datetime  # UTC: no attempt starts before it
    created_at: datetime | None = None  # UTC: when it was claimed, submitted or triggered
    published_at: datetime | None = None  # UTC: when the message was sent that its last lease was taken by
    leased_at: datetime | None = None  # UTC, of the last attempt
    last_heartbeat_at: datetime | None = None  # UTC: while RUNNING, when its lease was taken or last renewed
    worker: str | None = None  # name of the process of the last attempt
    worker_vanished: bool = False  # RUNNING, but its worker has not renewed the lease: another one may take it
    started_at: datetime | None  # UTC, of the first attempt
    ended_at: datetime | None  # UTC
    attempt: int  # attempts started
    fence: int  # leases taken
    reason: str | None  # why it is in this state
    error_type: str | None  # class of the last failure
    error: str | None  # its message
    error_code: str | None = None  # its code or HTTP status
    payload: Any = None  # of the job; one-offs only
    result: Any = None  # what the job returned
    progress: float | None = None  # 0 to 1, as of the last heartbeat
    stage: str | None = None  # stage that the job reported, as of the last heartbeat
    slices: int = 0  # slices that ended at a checkpoint
    awaits: str | None = (
        None  # while PARKED: "sleep", "signal:<name>", "children:<numbers>", "map:<step>", "run:<id>", "batch:<items>"; ``reason`` says it
    )
    parked_at: datetime | None = None  # UTC: while PARKED, since when it waits
    wake_at: datetime | None = None  # UTC: while PARKED, when its wait is over at the latest
    answer_schema: Mapping[str, Any] | None = (
        None  # while PARKED: the JSON Schema that the signal has to fit which it awaits; get_run only
    )
    parent: str | None = None  # id of the run whose job submitted it with ctx.submit, or that starts after its batch
    unique: str | None = None  # the unique key that it was submitted with
    app_version: str | None = None  # the application version that it is assigned to
    tags: Mapping[str, str] = field(
        default_factory=dict
    )  # its own; in get_run and in the history also those of its schedule
    cancel_requested: bool = False  # its owner asked for its cancellation
    replay_of: str | None = None  # id of the run that this one repeats
    actor: str | None = (
        None  # who triggered, replayed, skipped or cancelled it; of a submitted one, whom the application acts for
    )
    missed: bool = False  # its fire was claimed, or the run first started, more than a minute late
    backfill: str | None = None  # id of the backfill that it belongs to
    skipped: int | None = None  # row of a gap only: number of missed fires that were skipped, from ``due`` on
    skipped_until: datetime | None = None  # row of a gap only: UTC, the last skipped fire
    waits_because: str | None = (
        None  # why it cannot start, if no worker knows its job, or its tenant is suspended or may not run it; get_run only
    )
    steps: Mapping[str, Any] = field(default_factory=dict)  # recorded results by name; get_run only
    masked: bool = (
        False  # payload, result, steps and the texts of errors are left out: the caller may not read-payloads
    )
    failed_attempts: Sequence[FailedAttempt] = ()  # oldest first; get_run only

    @property
    def lateness(self) -> timedelta | None:
        """From due to the first start; None before it."""
        return None if self.started_at is None else self.started_at - self.due


# Flat, as the line of the archive that it shows.
@dataclass(frozen=True, kw_only=True)
class RunTransition:
    """One transition of a run, from the archive. ``run`` and ``sequence`` identify it."""

    at: datetime  # UTC, in whole seconds
    kind: str  # "claimed", "leased", "retried", "succeeded" …: docs/how-to/archive.md lists all
    run: str  # id of the run
    tenant: str  # its owner
    schedule: str | None  # name of its schedule; None for a one-off
    job: str  # name of its job
    before: RunState | None  # state before it; None: there was no run
    after: RunState | None  # state after it
    revision: int  # of the schedule; of a one-off: how often it was moved
    fence: int  # leases taken
    attempt: int  # attempts begun
    worker: str | None = None  # process of the last lease
    reason: str | None = None  # why the run is in the state after it
    error_type: str | None = None  # class of the failure, of a retry or a failed end
    error_code: str | None = None  # its code or HTTP status
    created_at: datetime | None = None  # UTC: its claim or submission
    due: datetime | None = None  # UTC
    not_before: datetime | None = None  # UTC: no attempt starts before it
    leased_at: datetime | None = None  # UTC: the last lease
    started_at: datetime | None = None  # UTC: the first lease
    ended_at: datetime | None = None  # UTC
    backfill: str | None = None  # id of the backfill that it belongs to
    replay_of: str | None = None  # id of the run that it repeats
    skipped: int | None = None  # row of a gap only: number of missed fires
    sequence: str  # 40 digits; grows with every transition of the run


@dataclass(frozen=True, kw_only=True)
class DeadRun:
    """A run that failed for good, as listed in the index of dead runs; ``get_run`` has all fields."""

    id: str  # pass it to get_run, replay_run or redrive
    tenant: str  # its owner
    schedule: str | None  # name of its schedule; None for a one-off
    job: str  # name of its job
    ended_at: datetime  # UTC
    attempts: int  # started
    reason: str  # why it is in its state
    state: RunState = RunState.DEAD  # or LOST (at most once, its worker crashed), EXPIRED (its deadline passed)
    error_type: str | None  # class of the last failure; None if no attempt failed, e.g. if its process died
    error: str | None  # its message, shortened
    redriven_as: str | None  # id of the run that repeats it
    masked: bool = False  # its error's message is left out: the caller may not read-payloads


@dataclass(frozen=True, kw_only=True)
class Redriven:
    """Result of ``redrive``."""

    runs: Sequence[DeadRun]  # dead runs that were repeated, or would be (dry run)
    failed: Mapping[str, str]  # dead runs by id that cannot be repeated, and why
    dry_run: bool  # True: nothing was written
    cursor: str | None = None  # continue here if it ended early (``limit``, ``stop``); None: every dead run was read

    @property
    def count(self) -> int:
        """Number of repeated runs."""
        return len(self.runs)


@dataclass(frozen=True, kw_only=True)
class Page:
    """Some items in a stable order; pass ``cursor`` for the next page; None: this is the last page."""

    items: Sequence[Any]
    cursor: str | None = None
    searched_to: datetime | None = (
        None  # list_runs over all schedules, list_dead, audit: all that is later was looked at
    )
    searched_name: str | None = None  # list_schedules: all schedules up to this name were looked at
    unreadable: Sequence[str] = ()  # list_schedules: names of schedules that this release cannot read


def view_of(kind: Callable[..., _T], row: object, /, **given: Any) -> _T:
    """A public object: its fields are ``given``, else those that ``row`` has under the same name, else their defaults.

    Where ``kind`` declares a datetime, the row has UTC ms, or None.
    """
    for name, field_ in vars(kind)["__dataclass_fields__"].items():
        if name not in given and hasattr(row, name):
            value = getattr(row, name)
            given[name] = from_ms(value) if value is not None and field_.type.startswith("datetime") else value
    return kind(**given)


def run_view(
    run: RunRow,
    *,
    now: int | None = None,
    payload: str | None = None,
    result: str | None = None,
    beside: SiblingRows | None = None,
    kind: RunKind | None = None,
    waits_because: str | None = None,
    masked: bool = False,
    tags: Mapping[str, str] = NO_TAGS,
) -> Run:
    """The public form of a ledger row, with payload, result and rows ``beside`` it if they were read. Raises Unreadable.

    ``now`` (UTC ms; None: not asked) decides whether its worker has vanished; ``kind`` is known where the row does not tell it;
    ``tags`` are those of its schedule.
    """
    siblings, failure = beside or SiblingRows(), run.failure
    holds_lease = run.state is RunState.RUNNING and run.lease_until is not None
    is_parked = run.state is RunState.PARKED
    with reading(f"run {run.ref}", {}):
        return view_of(
            Run,
            run,
            id=str(run.ref),
            tenant=run.ref.tenant,
            kind=kind or kind_of(run),
            tags={**tags, **run.own_tags},
            waits_because=waits_because,
            masked=masked,
            schedule=run.ref.schedule,
            created_at=from_ms(run.created_at) if run.created_at else None,
            awaits=run.awaits if is_parked else None,
            parked_at=from_ms(run.parked_at) if is_parked and run.parked_at else None,
            wake_at=from_ms(run.wake_at) if is_parked and run.wake_at else None,
            answer_schema=_answer_schema(run, siblings) if is_parked else None,
            last_heartbeat_at=from_ms(last_renewal(run.lease_until or 0)) if holds_lease else None,
            worker_vanished=holds_lease and now is not None and not has_live_lease(run, now),
            error_type=failure.kind if failure else None,
            error=(failure.message or None) if failure else None,
            error_code=failure.code if failure else None,
            payload=stored_value(payload or run.payload),
            result=stored_value(result or run.result),
            steps={name: json.loads(text) for name, text in siblings.steps.items()},
            failed_attempts=[
                view_of(
                    FailedAttempt,
                    attempt,
                    error_type=attempt.failure.kind,
                    error=attempt.failure.message,
                    error_code=attempt.failure.code,
                    traceback=attempt.failure.traceback,
                    permanent=attempt.failure.permanent,
                )
                for attempt in siblings.attempts
            ],
        )


def _answer_schema(run: RunRow, siblings: SiblingRows) -> Mapping[str, Any] | None:
    text = siblings.waits.get(signal_of(run) or "")
    return None if text is None else terms_of(text).schema


def dead_view(dead: DeadRunRow, *, masked: bool = False) -> DeadRun:
    return view_of(DeadRun, dead, id=str(dead.run), tenant=dead.run.tenant, masked=masked)


def stored_value(text: str | None) -> Any:
    """The value of a stored text. Raises Unreadable."""
    if text is None:
        return None
    with reading("payload", {}):
        return json.loads(text)
