"""A run: the ledger's record of one fire, one-off or manual trigger and its agenda entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Literal

from quarterjack.domain.names import RunRef
from quarterjack.domain.payload import tags_of
from quarterjack.domain.policies import Priority
from quarterjack.domain.times import DAY, SECOND, stamp
from quarterjack.values import value

EPOCH = 1_000_000  # of a fence: the epochs of the run lie above it, its leases below
UNTIL_DECIDED = (
    200 * 365 * DAY
)  # UTC ms: the ``not_before`` of a run that waits for its owner since a restore of the tables
RESULT_LOST = "lost"  # the ``result_ref`` of a run that has ended, and whose result no table has since a restore
MISSED = 60 * SECOND  # ms; a fire that is claimed, or starts, later than this after its time counts as missed


class RunState(StrEnum):
    """The state of a run; docs/explanation/runs.md draws the transitions."""

    QUEUED = "QUEUED"  # claimed; waits for its time and a worker
    RUNNING = "RUNNING"  # a worker holds the lease
    RETRYING = "RETRYING"  # an attempt ended without success; waits for not_before
    CONTINUED = "CONTINUED"  # a slice of a long job ended at its checkpoint; the next slice is not a new attempt
    PARKED = "PARKED"  # its job waits for a time, a signal or other runs, without worker and message
    SUCCEEDED = "SUCCEEDED"  # the job returned
    DEAD = "DEAD"  # failed for good; a copy is in the dead-letter queue
    LOST = "LOST"  # an at-most-once run whose worker crashed; it never runs again
    CANCELLED = "CANCELLED"  # cancelled by its owner, before its start or while it ran
    EXPIRED = "EXPIRED"  # its deadline passed before an attempt could start
    SUPERSEDED = "SUPERSEDED"  # a newer revision does not have this fire
    SKIPPED = "SKIPPED"  # never started: missed or overlapping under its schedule's options, or skipped by its owner
    SHADOWED = "SHADOWED"  # of a schedule with ``shadow``: it reached a worker, and the job was not started


RunStateWord = (
    RunState
    | Literal[
        "QUEUED",
        "RUNNING",
        "RETRYING",
        "CONTINUED",
        "PARKED",
        "SUCCEEDED",
        "DEAD",
        "LOST",
        "CANCELLED",
        "EXPIRED",
        "SUPERSEDED",
        "SKIPPED",
        "SHADOWED",
    ]
)
WAITING = frozenset({RunState.QUEUED, RunState.RETRYING, RunState.CONTINUED, RunState.PARKED})
TERMINAL = frozenset(set(RunState) - WAITING - {RunState.RUNNING})
FAILED = frozenset({RunState.DEAD, RunState.LOST, RunState.EXPIRED})  # failed for good


@value(kw_only=True)
class Failure:
    """The failure of an attempt."""

    kind: str  # the exception's class name
    message: str  # its text, shortened
    traceback: str = ""  # its traceback, shortened
    code: str | None = None  # the error's own code or HTTP status, if it has one
    permanent: bool = False  # whether another attempt is useless
    retry_after: float | None = None  # seconds that it asks the next attempt to wait


@value(kw_only=True)
class RunRow:
    """One row of the ledger. It is flat because a transition's changes and the item's attributes bear the names of its fields."""

    ref: RunRef  # its deterministic key
    state: RunState
    revision: int  # of its schedule; of a one-off: how often it was moved
    job: str  # name of the job
    due: int  # UTC ms of the fire, or the time a one-off was submitted for
    not_before: int  # UTC ms before which no attempt may start
    created_at: int = 0  # UTC ms of the claim
    fence: int = 0  # raised by every lease, and by EPOCH or more by a restore of the tables; never lowered
    attempt: int = 0  # attempts begun
    max_attempts: int = 0  # as of the last lease
    lease_until: int | None = None  # UTC ms at which the present lease ends
    lease_token: str | None = None  # random token of the present lease
    started_at: int | None = None  # UTC ms of the first lease
    leased_at: int | None = None  # UTC ms of the last one
    published_at: int | None = None  # UTC ms at which the message was sent by which that one was taken
    ended_at: int | None = None  # UTC ms of the terminal transition
    reason: str | None = None  # of the present state
    failure: Failure | None = None  # of the last failed attempt
    cancel_requested: bool = False  # no further attempt starts
    turn_waited_since: int | None = None  # UTC ms at which it last began to wait for other runs of its schedule
    unstarted: bool = False  # a change of its schedule ended it before its start: a newer revision may take it over
    worker: str | None = None  # process of the last lease
    result: str | None = None  # JSON text of a small result
    result_ref: str | None = (
        None  # of a larger one: "beside" (an item beside the row), its key in the bucket, or RESULT_LOST
    )
    progress: float | None = None  # 0 to 1, as of the last heartbeat
    stage: str | None = None  # of the job, as of the last heartbeat
    slices: int = 0  # slices that ended at a checkpoint
    replay_of: str | None = None  # id of the run that this one repeats
    scheduled_at: int | None = None  # replay only: UTC ms at which the repeated run was due
    timezone: str | None = None  # replay only: of that run's schedule
    buried_at: int | None = None  # UTC ms at which the undertaker recorded it
    payload: str | None = None  # its own, of a one-off, a trigger or a backfill: JSON text
    payload_ref: str | None = None  # the same: key in the bucket
    payload_beside: bool = False  # its own payload is in an item beside its row; a single read returns both
    overrides: str | None = (
        None  # of a one-off its policies, of a trigger what it overrides of the schedule's: JSON text
    )
    queue: str | None = None  # one-off only: name of its declared queue; None: the default one
    act: str | None = None  # skipped by its owner only: token of that call
    actor: str | None = None  # who triggered, replayed, skipped or cancelled it, or the claimed actor who submitted it
    app_version: str | None = None  # application version that it is assigned to
    skipped: int | None = None  # a row of several missed fires only: their number
    skipped_until: int | None = None  # the same: UTC ms of the last of them; ``due`` is the first
    backfill: str | None = None  # id of the backfill that it belongs to
    relisted: int | None = None  # raised by the auditor, so that the history lists the run again
    defined_by: int | None = None  # number of the revision that defines it, if that may differ from ``revision``
    parent: str | None = None  # id of the run whose job submitted it by ``ctx.submit``, or that starts after its batch
    child_no: int | None = None  # its number among the children of that run, from 1
    unique: str | None = None  # one-off only: the unique key that it was submitted with
    wait_no: int = 0  # waits that it has begun: of the present one, or of the last
    awaits: str | None = None  # what it waits for, or waited for last: see ``state.waits.park``
    wake_at: int | None = None  # UTC ms at which that wait ends or ended at the latest
    parked_at: int | None = None  # UTC ms at which that wait began
    asked: str | None = None  # JSON text: the latest requests of its job: see ``state.waits.asked``
    asked_before: int = 0  # the number of earlier requests, which lie beside the row
    tags: str | None = None  # its own, beside those of its schedule: JSON text of an object

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def is_undecided(self) -> bool:
        """Whether it waits for its owner's decision since a restore of the tables: no message or entry of it is needed."""
        return self.state is RunState.RETRYING and self.not_before >= UNTIL_DECIDED

    @property
    def leases(self) -> int:
        """How often it was leased."""
        return self.fence % EPOCH

    @property
    def missed(self) -> bool:
        """Whether its fire was claimed, or its first attempt started, more than MISSED after its time.

        The fires of a backfill are late by design. A fire that waited for other runs of its schedule is judged as of that wait's begin:
        the schedule's own policy delayed it after that.
        """
        ready = min(filter(None, (self.started_at, self.turn_waited_since)), default=0)
        if max(self.created_at, ready) - self.due <= MISSED or self.backfill is not None:
            return False
        return self.ref.is_fire or self.skipped_until is not None

    def end_time(self, now: int) -> int:
        """``now`` (UTC ms), or the latest instant at which something of it has happened already, by a clock that was ahead of this one.

        An end is dated by it: a row neither ends before it began nor expires too early.
        """
        return max(now, self.created_at, self.started_at or 0, self.leased_at or 0)

    @property
    def own_tags(self) -> Mapping[str, str]:
        """Its own tags by key."""
        return tags_of(self.tags)

    @property
    def waits_since(self) -> int:
        """UTC ms since which it could start for the first time; a fire of a backfill could not before it was created."""
        return self.due if self.backfill is None else self.created_at

    @property
    def lateness(self) -> int | None:
        """Milliseconds from due to start; None before the start."""
        return None if self.started_at is None else self.started_at - self.due


def child_row(
    ref: RunRef,
    parent: RunRef,
    number: int,
    *,
    job: str,
    overrides: str | None,
    queue: str | None,
    app_version: str | None,
    now: int,
) -> RunRow:
    """The row of a child that may start at once, without its payload.

    ``number``: among the children of its parent; ``app_version``: that of its parent; ``now``: UTC ms.
    """
    return RunRow(
        ref=ref,
        state=RunState.QUEUED,
        revision=0,
        job=job,
        due=now,
        not_before=now,
        created_at=now,
        overrides=overrides,
        queue=queue,
        app_version=app_version,
        parent=str(parent),
        child_no=number,
    )


@value(kw_only=True)
class FailedAttemptRow:
    """One failed attempt: an immutable row beside the run's."""

    run: RunRef
    number: int  # 1, 2, 3 …
    fence: int  # of its lease
    worker: str  # its process
    started_at: int  # UTC ms
    ended_at: int  # UTC ms
    failure: Failure
    next_attempt_at: int | None  # UTC ms; None if it was the last


@value(kw_only=True)
class SiblingRows:
    """The items beside a run's row."""

    attempts: tuple[FailedAttemptRow, ...] = ()  # failed ones, oldest first
    steps: Mapping[str, str] = field(default_factory=dict)  # JSON text of each recorded step, by name
    checkpoint: str | None = None  # JSON text of the last checkpoint, or its key in the bucket after "@"
    result: str | None = None  # JSON text of a result too large for the row
    asked: tuple[str, ...] = ()  # earlier requests of its job, in their order
    waits: Mapping[str, str] = field(default_factory=dict)  # terms of waits for signals: their stored text, by signal


class EntryKind(StrEnum):
    """The action of the ticker when an entry is due."""

    CHAIN = "chain"  # claim the revision's fires and put the next entry
    RUN = "run"  # send the run's message if it still waits
    WATCH = "watch"  # declare an at-most-once run LOST if its lease has ended
    RESUME = "resume"  # end a pause that has an end
    BACKFILL = "backfill"  # advance a backfill after a worker's crash, and end it
    NOTICE = "notice"  # notify an owner of an incident, or of its end
    TURN = "turn"  # start runs that waited for other runs of their schedule
    QUEUE = "queue"  # send for runs in the wait queue of a concurrency cap
    EXPECT = "expect"  # check that a schedule had a success in time
    OVERDUE = "overdue"  # check that a run of a schedule ends in time


@value(kw_only=True)
class AgendaEntry:
    """One timer. It stays in the agenda until the ticker has handled it."""

    shard: int | str  # its partition; that of a concurrency cap's wait queue has a name
    due: int  # UTC ms
    kind: EntryKind  # the action
    # chain: revision id; run: run id, of a rescheduled one with its revision; watch: run id and lease token; overdue: run id, with the
    # instant since which it is overdue once that was told
    id: str
    after: int = 0  # chain: fires up to this UTC ms are claimed already; backfill: fires created at the last look
    failures: int = 0  # how often its own data made handling fail
    created_at: int = 0  # run, watch and overdue: UTC ms of the put
    queue: str | None = None  # chain and run: the declared queue of its messages; None: the default one, or unknown
    job: str | None = None  # chain: the name of its job
    priority: Priority = Priority.NORMAL  # chain and run: of its runs, as far as that is known
    # ``due#kind#id``: sorts by time; two chains of one revision that meet become one.
    key: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{stamp(self.due)}#{self.kind}#{self.id}")

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return self.id.partition("/")[0]

    @property
    def run(self) -> RunRef:
        """The run of a run, watch or overdue entry."""
        owner, key = self.id.split("#")[:2]
        return RunRef(owner, key)


def parse_entry_key(key: str) -> tuple[int, EntryKind, str]:
    due, kind, identity = key.split("#", 2)
    return int(due), EntryKind(kind), identity
