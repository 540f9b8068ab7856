"""Return values of the calls that read or change whole schedules or many of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from minutehand.sdk.views import Run, Schedule
from minutehand.timing import Rule


@dataclass(frozen=True, kw_only=True)
class Upserted:
    """Result of ``upsert_schedule``."""

    schedule: Schedule  # as it is now
    change: str  # "created", "updated" or "unchanged"


@dataclass(frozen=True, kw_only=True)
class DefinitionView:
    """Content of the current revision."""

    job: str  # name of its job
    rule: Rule  # when it is due, complete
    payload: Any  # what the job is given
    policies: Mapping[str, Any]  # that override the job's own, by the names that create_schedule has for them
    options: Mapping[str, Any]  # the options that are not the default


@dataclass(frozen=True, kw_only=True)
class RevisionView:
    """One revision of a schedule's history."""

    number: int  # 1, 2, 3 …
    active_from: datetime  # UTC: fires later than this are its
    active_until: datetime | None  # UTC: fires up to this, too; None while it is open
    closed_by: (
        str | None
    )  # "replaced", "paused", "deleted" or "drained" (one of the latter two, runs that were due let go)
    changed: Sequence[
        str
    ]  # fields that differ from the revision before, e.g. "expression", "payload", "retry", "catch_up"


@dataclass(frozen=True, kw_only=True)
class ChainView:
    """Health of a schedule's chain: whether its next fire is in the agenda."""

    state: str  # "ok", "missing", "quarantined", "unknown" or "not needed"
    due: datetime | None = None  # UTC: when its agenda entry is due
    remedy: str | None = None  # what to do, unless it is ok or not needed


@dataclass(frozen=True, kw_only=True)
class ScheduleDescription:
    """Everything that is stored about a schedule."""

    schedule: Schedule  # as get_schedule shows it
    definition: DefinitionView  # of its current revision
    revisions: Sequence[RevisionView]  # the newest first, twenty at the most
    next_fires: Sequence[datetime]  # the next ten, in the schedule's zone; empty unless ACTIVE
    last_runs: Sequence[Run]  # the last ten that were due, newest first, each with its state and lateness
    chain: ChainView  # whether its agenda entry is there


@dataclass(frozen=True, kw_only=True)
class BulkResult:
    """Result of ``bulk``."""

    action: str  # as asked
    done: Sequence[str] = ()  # names of the schedules that it was done to, or would be (dry run), in order
    failed: Mapping[str, str] = field(default_factory=dict)  # schedules by name that it could not be done to, and why
    dry_run: bool = False  # True: nothing was written
    cursor: str | None = None  # where to go on if it ended early (``stop``); None: all was looked at

    @property
    def count(self) -> int:
        """Number of schedules that were changed."""
        return len(self.done)


@dataclass(frozen=True, kw_only=True)
class BulkProgress:
    """Progress of ``bulk``."""

    done: int  # schedules
    failed: int  # schedules
    cursor: str  # the last name up to which all is done: pass it to go on from here
