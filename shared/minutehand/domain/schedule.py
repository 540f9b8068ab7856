"""A schedule: its head, which moves, and its revisions, which do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from minutehand.domain.names import schedule_owner
from minutehand.domain.options import Options
from minutehand.domain.policies import Overrides
from minutehand.domain.quick import quick
from minutehand.timing import Rule


class ScheduleState(StrEnum):
    """Where a schedule stands."""

    ACTIVE = "ACTIVE"  # its current revision is open and has a chain entry in the agenda
    PAUSED = "PAUSED"  # closed by its owner; `resume` opens a new revision
    COMPLETED = "COMPLETED"  # its expression has no further fire
    DELETED = "DELETED"  # gone for its owner; the head stays, so that the numbering of revisions goes on


class ChangeKind(StrEnum):
    """What a call did to a schedule."""

    CREATED = "created"  # it was not there, or deleted
    UPDATED = "updated"
    UNCHANGED = "unchanged"  # it was so already, and nothing was written


class ClosedBy(StrEnum):
    """What set a revision's end, and so what becomes of its unstarted runs."""

    REPLACED = "replaced"  # a newer revision: runs later than the end are superseded
    PAUSED = "paused"  # every unstarted run is cancelled
    DELETED = "deleted"  # every unstarted run is cancelled
    DRAINED = (
        "drained"  # paused or deleted with drain=True: unstarted runs later than the end are cancelled, those due go
    )


@quick
@dataclass(frozen=True, kw_only=True)
class Definition:
    """What one revision says: which job, when, with what."""

    job: str  # name of a registered job
    rule: Rule  # when it is due
    payload: str | None = None  # JSON text, or None where it lies in the bucket
    payload_ref: str | None = None  # key in the bucket of a payload too large for a message
    overrides: Overrides = field(default_factory=Overrides)  # policies that differ from the job's own
    options: Options = field(default_factory=Options)  # what its owner asks of the schedule itself


def settled(asked: Definition, present: Definition | None) -> Definition:
    """What is asked, with what the present definition has added to the very same rule: the seed of its jitter, the last of its fires.

    So a definition that says the same is equal to the present one, and a rule that stays goes on counting.
    """
    if present is None:
        return asked
    said, known = asked.rule.as_dict(), present.rule.as_dict()
    worked_out = {name: known[name] for name in ("seed", "last") if name in known}
    return replace(asked, rule=present.rule) if worked_out | said == known else asked


@quick
@dataclass(frozen=True, kw_only=True)
class Revision:
    """One immutable definition of a schedule, active for fires in ``(active_from, active_until]``."""

    tenant: str  # whose schedule
    name: str  # the schedule's name
    number: int  # 1, 2, 3 … within the schedule
    shard: int  # the agenda shard its chain lives in
    definition: Definition  # what is due, and when
    active_from: int  # UTC ms, exclusive
    anchor: int | None = None  # UTC ms that rates count from, where an update kept the rule; None: active_from
    active_until: int | None = None  # UTC ms, inclusive; None while it is open
    closed_by: ClosedBy | None = None  # set once, together with active_until
    failing: int = 0  # 1 while an incident goes on: workers see it with the revision, for free, and report a success

    @cached_property
    def owner(self) -> str:
        return schedule_owner(self.tenant, self.name)

    @cached_property
    def id(self) -> str:
        """``tenant/name#number``: the id of its chain entries."""
        return f"{self.owner}#{self.number}"

    @property
    def counts_from(self) -> int:
        """The instant (UTC ms) from which rates and ``max_fires`` count."""
        return self.active_from if self.anchor is None else self.anchor

    def bound(self, upto: int) -> int:
        """``upto`` cut to this revision's end (UTC ms)."""
        return upto if self.active_until is None else min(upto, self.active_until)


@dataclass(frozen=True, kw_only=True)
class Head:
    """The one row of a schedule that moves; every write is conditional on its ``version``."""

    tenant: str  # whose schedule
    name: str  # unique within the tenant
    state: ScheduleState  # where it stands
    revision: int  # number of its current (newest) revision
    version: int  # raised by every change of the head
    job: str  # of the current revision, for listings
    expression: str  # of the current revision, for listings
    timezone: str  # of the current revision, for listings
    description: str = ""  # free text
    tags: Mapping[str, str] = field(default_factory=dict)  # free words to filter by
    note: str | None = None  # why it was paused
    resume_at: int | None = None  # UTC ms at which a pause ends by itself
    managed_by: str | None = None  # the package or file whose `apply` owns it
    failing: int = 0  # runs that failed for good in a row, as of the last that did; 0 after a success
    failed_at: int | None = None  # UTC ms of the last failure for good
    failed_run: str | None = None  # id of that run
    incident: str | None = None  # what is wrong since when, until it is over; see flow/incidents
    created_at: int = 0  # UTC ms
    updated_at: int = 0  # UTC ms

    @property
    def owner(self) -> str:
        return schedule_owner(self.tenant, self.name)
