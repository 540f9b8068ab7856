"""A schedule: its declaration, its head, which changes, its revisions, which are immutable, and a tenant's freeze."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal

from quarterjack.domain.names import schedule_owner
from quarterjack.domain.options import Options
from quarterjack.domain.policies import Overrides
from quarterjack.domain.times import SECOND
from quarterjack.timing import STORED, TAKEN, Rule
from quarterjack.values import replace, value


class ScheduleState(StrEnum):
    """The state of a schedule."""

    ACTIVE = "ACTIVE"  # its current revision is open and has a chain entry in the agenda
    PAUSED = "PAUSED"  # closed by its owner; `resume` opens a new revision
    COMPLETED = "COMPLETED"  # its expression has no further fire
    DELETED = "DELETED"  # its owner no longer sees it; of the head the numbering stays, so that no revision's number comes again


ScheduleStateWord = ScheduleState | Literal["ACTIVE", "PAUSED", "COMPLETED", "DELETED"]


class ChangeKind(StrEnum):
    CREATED = "created"  # it did not exist, or was deleted
    UPDATED = "updated"
    UNCHANGED = "unchanged"  # it was as requested, and nothing was written


class ClosedBy(StrEnum):
    """The reason of a revision's end; it decides what happens to unstarted runs."""

    REPLACED = "replaced"  # a newer revision: runs later than the end are superseded
    PAUSED = "paused"  # every unstarted run is cancelled
    DELETED = "deleted"  # every unstarted run is cancelled
    DRAINED = "drained"  # paused or deleted with drain=True: only unstarted runs later than the end are cancelled


@value(kw_only=True)
class Definition:
    """The content of a revision: job, rule, payload, policies and options."""

    job: str  # name of a registered job
    rule: Rule  # when it is due
    payload: str | None = None  # JSON text; None: it is in the bucket
    payload_ref: str | None = None  # key in the bucket of a payload too large for a message
    overrides: Overrides = field(default_factory=Overrides)  # policies that differ from the job's own
    options: Options = field(default_factory=Options)  # of the schedule itself

    @property
    def has_payload(self) -> bool:
        """Whether its jobs get a payload other than None."""
        return self.payload_ref is not None or self.payload not in (None, "null")


def settled(asked: Definition, present: Definition | None) -> Definition:
    """``asked`` with what the present definition's rule has stored, if its rule is otherwise the same.

    So an unchanged definition is equal to the present one, and an unchanged rule keeps its count of fires. A changed rule keeps the
    seed of its jitter: the delays of a schedule do not depend on what is edited.
    """
    if present is None:
        return asked
    new, known = asked.rule.as_dict(), present.rule.as_dict()
    stored = {name: known[name] for name in STORED if name in known}
    given = {name: value for name, value in new.items() if name not in TAKEN}
    if stored | given == known:
        return replace(asked, rule=present.rule)
    if asked.rule.jitter and asked.rule.seed is None:
        return replace(asked, rule=replace(asked.rule, seed=present.rule.seed))
    return asked


@value(kw_only=True)
class Revision:
    """One immutable definition of a schedule, active for fires in ``(active_from, active_until]``."""

    tenant: str
    name: str  # the schedule's name
    number: int  # 1, 2, 3 … within the schedule
    shard: int  # the agenda shard of its chain
    definition: Definition
    active_from: int  # UTC ms, exclusive
    anchor: int | None = None  # UTC ms that rates count from, where an update kept the rule; None: active_from
    active_until: int | None = None  # UTC ms, inclusive; None while it is open
    closed_by: ClosedBy | None = None  # set once, together with active_until
    failing: int = 0  # 1 during an incident: workers read it with the revision and then report a success
    actor: str | None = None  # who made it; None: an earlier release

    @property
    def owner(self) -> str:
        return f"{self.tenant}/{self.name}"

    @property
    def id(self) -> str:
        """``tenant/name#number``: the id of its chain entries."""
        return f"{self.owner}#{self.number}"

    @property
    def counts_from(self) -> int:
        """The instant (UTC ms) from which rates and ``max_fires`` count."""
        return self.active_from if self.anchor is None else self.anchor

    @property
    def success_within(self) -> int | None:
        """How long (ms) its schedule may be without a success; None: without limit."""
        seconds = self.definition.options.expect_success_within
        return None if seconds is None else int(seconds * SECOND)

    def bound(self, upto: int) -> int:
        """``upto`` cut to this revision's end (UTC ms)."""
        return upto if self.active_until is None else min(upto, self.active_until)


@value(kw_only=True)
class Head:
    """The one mutable row of a schedule; every write is conditional on its ``version``. It is flat as its item is."""

    tenant: str
    name: str  # unique within the tenant
    state: ScheduleState
    revision: int  # number of its current (newest) revision
    version: int  # raised by every change of the head
    job: str  # of the current revision, for listings
    expression: str  # of the current revision, for listings
    timezone: str  # of the current revision, for listings
    rule: str | None = (
        None  # of the current one, what it says beside those two, as JSON; None: it is long, and in the revision
    )
    counts_from: int | None = None  # UTC ms from which its rates and ``max_fires`` count
    description: str = ""  # free text
    tags: Mapping[str, str] = field(default_factory=dict)  # labels to filter by
    reason: str | None = None  # the reason of a pause
    resume_at: int | None = None  # UTC ms at which a pause ends
    paused_at: int | None = None  # UTC ms at which the present pause began
    paused_by: str | None = None  # who began it
    managed_by: str | None = None  # the package or file whose `apply` manages it
    failing: int = 0  # runs in a row that failed for good; 0 after a success
    failed_at: int | None = None  # UTC ms of the last failure for good
    failed_run: str | None = None  # id of that run
    incident: str | None = None  # id of the present incident; see state/incidents.py
    actor: str | None = None  # who did the last act on it; None: an earlier release
    created_at: int = 0  # UTC ms
    updated_at: int = 0  # UTC ms
    retired_at: int | None = None  # UTC ms from which on nothing but the numbering is kept of a deleted schedule
    clearing: bool = False  # retired, and some of its revisions may still be stored

    @property
    def owner(self) -> str:
        return schedule_owner(self.tenant, self.name)

    def retired(self, now: int) -> Head:
        """What is kept of a deleted schedule: when it was deleted, and the numbering."""
        return Head(
            tenant=self.tenant,
            name=self.name,
            state=ScheduleState.DELETED,
            revision=self.revision,
            version=self.version + 1,
            job="",
            expression="",
            timezone="UTC",
            updated_at=self.updated_at,
            retired_at=now,
            clearing=True,
        )


def rule_of_head(head: Head) -> Rule | None:
    """The rule of a schedule as its head tells it; None: it is long, and in the revision. Raises ExpressionError."""
    return None if head.rule is None else _rule_of(head.expression, head.timezone, head.rule)


@lru_cache(maxsize=4096)
def _rule_of(expression: str, timezone: str, rest: str) -> Rule:
    """The same is read once."""
    return Rule.from_dict({"expression": expression, "timezone": timezone, **json.loads(rest)})


@value(kw_only=True)
class Declaration:
    """One declared schedule, checked."""

    place: str  # where it is declared, for errors: "acme.jobs.daily", "schedules.yaml:12"
    rule: Rule  # when it is due
    name: str | None = None  # of the schedule; None: its job's
    job: str | None = None  # name of the job; None: that of ``function``
    function: Callable[..., Any] | None = None  # the job's function, where it is declared on one
    payload: str = "null"  # canonical JSON text
    description: str = ""  # free text
    tags: Mapping[str, str] = field(default_factory=dict)  # labels to filter by
    overrides: Overrides = field(default_factory=Overrides)  # policies that differ from the job's own
    options: Options = field(default_factory=Options)  # queue, catch-up, overlap and failure handling of its runs
    paused: bool | None = None  # None leaves a pause as it is

    def is_again(self, known: Declaration) -> bool:
        """Whether an earlier declaration of the same place is this one, of a module that was imported again."""
        return known.name == self.name if self.function is None else known.function is not self.function


_FROZEN = "~tenant"  # not a valid name of a schedule


class FrozenKind(StrEnum):
    """What a part of a tenant's runs has in common."""

    JOB = "job"
    QUEUE = "queue"
    KEY = "key"  # of a flow


@value(kw_only=True)
class FrozenPart:
    """A stop of the starts of a job's, a queue's or a key's runs: they wait, and start at a rate when it has ended."""

    kind: FrozenKind
    value: str  # name of the job or queue; of a key, its digest
    label: str  # for people
    since: int  # UTC ms
    until: int  # UTC ms at which it ends
    per_minute: int  # starts of those that waited, after its end
    rest_until: int  # UTC ms up to which they may start at that rate, and all others with them
    reason: str | None = None
    actor: str | None = None  # who set or ended it

    @property
    def name(self) -> tuple[FrozenKind, str]:
        """What it stops."""
        return self.kind, self.value


@value(kw_only=True)
class Freeze:
    """A stop of all starts of a tenant, schedules and one-offs alike; and of parts of them."""

    tenant: str
    until: int  # UTC ms at which it ends
    reason: str | None = None  # the owner's reason
    created_at: int = 0  # UTC ms
    actor: str | None = None  # who set or ended it
    parts: tuple[FrozenPart, ...] = ()  # stops of some of its runs
    version: int = 0  # raised by each change

    def parts_at(self, now: int) -> tuple[FrozenPart, ...]:
        """The parts that concern a run now: frozen, or on their way back."""
        return tuple(part for part in self.parts if now < part.rest_until) if self.parts else ()


def freeze_key(tenant: str) -> tuple[str, int]:
    """The key of a tenant's freeze. It is in the table of revisions, so that a worker reads both in one batch."""
    return schedule_owner(tenant, _FROZEN), 0


def is_freeze(key: tuple[str, int]) -> bool:
    return key[1] == 0
