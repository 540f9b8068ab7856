"""A run: the ledger's record of one fire, one-off or manual trigger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from minutehand.domain.names import RunRef
from minutehand.domain.quick import quick
from minutehand.domain.times import SECOND

MISSED = 60 * SECOND  # a fire that is claimed longer after its time was missed: the scheduler was behind


class RunState(StrEnum):
    """Where a run stands; docs/explanation/runs.md draws the transitions."""

    QUEUED = "QUEUED"  # claimed; waits for its time and a worker
    RUNNING = "RUNNING"  # a worker holds the lease
    RETRYING = "RETRYING"  # an attempt ended without success; waits for not_before
    CONTINUED = "CONTINUED"  # a slice of a long job ended at its checkpoint; the next one spends no attempt
    SUCCEEDED = "SUCCEEDED"  # the job returned
    DEAD = "DEAD"  # failed for good; a copy is in the dead-letter queue
    LOST = "LOST"  # an at-most-once run whose worker vanished; never run again
    CANCELLED = "CANCELLED"  # taken back by its owner, before its start or while it ran
    EXPIRED = "EXPIRED"  # its deadline passed before an attempt could start
    SUPERSEDED = "SUPERSEDED"  # a newer revision does not have this fire
    SKIPPED = "SKIPPED"  # its owner's policy passed it over: missed, overlapped, or skipped by hand; never started
    SHADOWED = "SHADOWED"  # its schedule only tries its clock: it came to a worker, and no job was started


WAITING = frozenset({RunState.QUEUED, RunState.RETRYING, RunState.CONTINUED})
TERMINAL = frozenset(set(RunState) - WAITING - {RunState.RUNNING})


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why an attempt failed."""

    kind: str  # the exception's class name
    message: str  # its text, bounded
    traceback: str = ""  # its traceback, bounded
    code: str | None = None  # the error's own code or HTTP status, if it has one
    permanent: bool = False  # whether another attempt is useless
    retry_after: float | None = None  # seconds that it asks to wait


@quick
@dataclass(frozen=True, kw_only=True)
class RunRow:
    """One row of the ledger."""

    ref: RunRef  # its deterministic key
    state: RunState  # where it stands
    revision: int  # of its schedule; 0 for a one-off
    job: str  # name of the job
    due: int  # UTC ms of the fire, or the time a one-off was submitted for
    not_before: int  # UTC ms before which no attempt may start
    created_at: int = 0  # UTC ms of the claim
    fence: int = 0  # raised by every lease, never lowered
    attempt: int = 0  # attempts begun
    max_attempts: int = 0  # as of the last lease
    lease_until: int | None = None  # UTC ms at which the present lease ends
    lease_token: str | None = None  # who holds it
    started_at: int | None = None  # UTC ms of the first lease
    leased_at: int | None = None  # UTC ms of the last one
    ended_at: int | None = None  # UTC ms of the terminal transition
    reason: str | None = None  # why it is in this state
    failure: Failure | None = None  # of the last failed attempt
    cancel_requested: bool = False  # no further attempt starts
    unstarted: bool = (
        False  # refused by a change of its schedule before it ever started: a newer revision may take it over
    )
    worker: str | None = None  # process of the last lease
    result: str | None = None  # JSON text of a small result
    result_ref: str | None = None  # where a larger one lies: "beside" the row, or its key in the bucket
    progress: float | None = None  # 0 to 1, as of the last heartbeat
    stage: str | None = None  # what it is at, as of the last heartbeat
    slices: int = 0  # slices that ended at a checkpoint
    replay_of: str | None = None  # id of the run that this one repeats
    scheduled_at: int | None = None  # replay only: UTC ms at which the repeated run was due
    timezone: str | None = None  # replay only: of that run's schedule
    buried_at: int | None = None  # UTC ms at which the undertaker recorded it
    payload: str | None = None  # its own, of a one-off, a trigger or a backfill: JSON text
    payload_ref: str | None = None  # the same: key in the bucket
    payload_beside: bool = False  # its own payload lies beside its row; a single read brings it
    overrides: str | None = None  # one-off only: its policies as JSON text
    queue: str | None = None  # one-off only: name of the declared queue that it goes to; None: the default one
    act: str | None = None  # skipped by hand only: token of the call that did it
    skipped: int | None = None  # a gap only: how many fires it stands for
    skipped_until: int | None = None  # a gap only: UTC ms of the last of them; ``due`` is the first
    backfill: str | None = None  # id of the backfill that it belongs to
    defined_by: int | None = None  # number of the revision whose definition it has, where that may not be ``revision``

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL

    @property
    def missed(self) -> bool:
        """Whether the scheduler came to its fire too late; a backfill's are late on purpose."""
        of_chain = (self.ref.is_fire or self.skipped_until is not None) and self.backfill is None
        return of_chain and self.created_at - self.due > MISSED

    @property
    def lateness(self) -> int | None:
        """Milliseconds from due to start; None before the start."""
        return None if self.started_at is None else self.started_at - self.due


@dataclass(frozen=True, kw_only=True)
class FailedAttemptRow:
    """One failed attempt: an immutable row beside the run's."""

    run: RunRef  # whose
    number: int  # 1, 2, 3 …
    fence: int  # of its lease
    worker: str  # which process
    started_at: int  # UTC ms
    ended_at: int  # UTC ms
    failure: Failure  # what went wrong
    next_attempt_at: int | None  # UTC ms; None if it was the last


@dataclass(frozen=True, kw_only=True)
class SiblingRows:
    """What lies beside a run's row."""

    attempts: tuple[FailedAttemptRow, ...] = ()  # failed ones, oldest first
    steps: Mapping[str, str] = field(default_factory=dict)  # JSON text of each recorded step, by name
    checkpoint: str | None = None  # JSON text of the last checkpoint, or its key in the bucket after "@"
    result: str | None = None  # JSON text of a result too large for the row
