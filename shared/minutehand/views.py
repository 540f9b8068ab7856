"""What the SDK returns: schedules and runs with aware datetimes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from minutehand.model.moment import from_ms
from minutehand.model.run import Run as LedgerRun
from minutehand.model.run import RunState
from minutehand.model.schedule import Head, Revision, ScheduleState
from minutehand.schedule import zone


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
    revision: int  # number of the current revision
    version: int  # raised by every change
    created_at: datetime  # UTC
    updated_at: datetime  # UTC
    last_fired_at: datetime | None = None  # of the last run that started, in the schedule's zone
    next_fires: Sequence[datetime] = ()  # the next five, in the schedule's zone; empty unless ACTIVE


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
    payload: Any = None  # one-offs only: what the job is given

    @property
    def lateness(self) -> timedelta | None:
        """From due to the first start; None before it."""
        return None if self.started_at is None else self.started_at - self.due


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
        payload=json.loads(payload) if revision is not None and payload is not None else None,
        description=head.description,
        tags=dict(head.tags),
        note=head.note,
        revision=head.revision,
        version=head.version,
        created_at=from_ms(head.created_at),
        updated_at=from_ms(head.updated_at),
        last_fired_at=None if last_fired is None else from_ms(last_fired, local),
        next_fires=[from_ms(fire, local) for fire in upcoming],
    )


def run_view(run: LedgerRun, payload: str | None = None) -> Run:
    """The public form of a ledger row."""
    text = payload or run.payload
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
        payload=json.loads(text) if text is not None else None,
    )
