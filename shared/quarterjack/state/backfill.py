"""Backfill: its record, and the decisions about its fires. Pure.

    fires in order     ■ ■ ■ ■ □ ■ ■ □ □ · · · · · · · · ·
                       counted ┴───┴─┴─┴─ window  ▲ cursor: the last fire that entered the window

The window holds the fires that are claimed, or about to be, and whose runs have not ended: at most ``concurrency``, and they end in
any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from enum import StrEnum
from typing import Any, Literal, Self

from quarterjack.domain.names import RunRef, fire_ref
from quarterjack.domain.policies import Policies
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.schedule import Head, ScheduleState
from quarterjack.domain.tenants.app_versions import AppVersions
from quarterjack.domain.times import MINUTE
from quarterjack.values import replace, value

# Runs of one backfill at the same time: the window lies in the record, which each change writes as a whole.
MAX_CONCURRENCY = 100
RECORD = "~backfill~"  # a record's key is this and the backfill's id
ROW_PAYLOAD = 400  # bytes of its payload in every run's row; more lies in the bucket, as updates bill the whole row
MARGIN = MINUTE  # ms by which a fire must be younger than the retention: clocks differ from that of the table's expiry


class BackfillState(StrEnum):
    PLANNED = "PLANNED"  # a dry run: nothing was written
    RUNNING = "RUNNING"  # it advances; while its schedule is paused it waits
    PAUSED = "PAUSED"  # its owner holds it; runs that had started go on to their end
    CANCELLED = "CANCELLED"  # ended by its owner, or because its schedule was deleted
    DONE = "DONE"  # every fire is counted


BackfillStateWord = BackfillState | Literal["RUNNING", "PAUSED", "CANCELLED", "DONE"]
ENDED = frozenset({BackfillState.CANCELLED, BackfillState.DONE})


class BackfillOrder(StrEnum):
    OLDEST = "oldest"
    NEWEST = "newest"


BackfillOrderWord = BackfillOrder | Literal["oldest", "newest"]


@value()
class DefinitionSpan:
    """A part of the interval with one definition: the fires in ``(after, upto]``."""

    revision: int  # number of the revision that defines it
    after: int  # UTC ms, exclusive
    upto: int  # UTC ms, inclusive
    anchor: int  # UTC ms from which rates and ``max_fires`` count


@value(kw_only=True)
class StoredBackfill:
    """One backfill as its record holds it. The first part is fixed when it is created; every change is a write under ``version``.

    It is flat as its record's body is.
    """

    id: str  # sorts by the time of its creation
    tenant: str  # whose
    name: str  # of the schedule
    born: int  # UTC ms of the creation of the schedule: its successor of the same name is another one
    start: int  # UTC ms, inclusive
    end: int  # UTC ms, exclusive
    order: BackfillOrder  # which fires come first
    concurrency: int  # fires in the window, at the most
    spans: tuple[DefinitionSpan, ...]  # those with fires, oldest first
    total: int  # fires in all
    first: int | None  # UTC ms of the first fire in time; None if there is none
    last: int | None  # UTC ms of the last
    created_at: int  # UTC ms
    payload: str | None = None  # JSON text for every run, instead of its definition's; or
    payload_ref: str | None = None  # its key in the bucket
    allow_repeat: bool = False  # whether fires are claimed that are older than the ledger remembers
    tags: str | None = None  # of every run: JSON text of an object

    state: BackfillState = BackfillState.RUNNING
    reason: str | None = None  # why it is in this state
    ended_at: int | None = None  # UTC ms
    cursor: int | None = None  # UTC ms of the fire that entered the window, or was skipped, last; None before the first
    exhausted: bool = False  # whether no fire is left beyond the cursor
    window: tuple[int, ...] = ()  # UTC ms of the fires whose runs have not ended, in the order in which they entered
    done: int = 0  # runs that ended
    failed: int = 0  # of these, without success
    skipped: int = 0  # fires that it did not run: a run was there, or could have been and left the ledger
    version: int = 0  # of the record; 0 before it is stored

    @property
    def owner(self) -> str:
        return f"{self.tenant}/{self.name}"

    @property
    def created(self) -> int:
        """Fires that have, or had, a run of this backfill."""
        return self.done + len(self.window)

    @property
    def room(self) -> int:
        """How many fires may enter the window now, if its schedule lets it advance."""
        if self.state is not BackfillState.RUNNING or self.exhausted:
            return 0
        return self.concurrency - len(self.window)

    def floor(self, now: int, retention: int) -> int | None:
        """Fires before this instant (UTC ms) are skipped: their rows may have left the ledger. None: no such bound."""
        return None if self.allow_repeat else now - retention + MARGIN

    def in_state(self, state: BackfillState, *, now: int, reason: str | None) -> Self:
        return replace(self, state=state, reason=reason, ended_at=now if state in ENDED else None)

    def counted(self, fire: int, state: RunState | None) -> Self:
        """Count a fire of the window whose run ended in ``state``; None: the fire was skipped."""
        left = self.without(fire)
        if state is None or state is RunState.SKIPPED:
            return replace(left, skipped=left.skipped + 1)
        failed = state not in (RunState.SUCCEEDED, RunState.SHADOWED)
        return replace(left, done=left.done + 1, failed=left.failed + failed)

    def without(self, fire: int) -> Self:
        """Without a fire in the window that a cancellation kept from running: another backfill may run it."""
        return replace(self, window=tuple(other for other in self.window if other != fire))

    def entered(self, new: Sequence[int], *, cursor: int | None, skipped: int, exhausted: bool) -> Self:
        """Add fires to the window. ``cursor`` is the last of them, or of the fires that were ``skipped`` on the way."""
        window, skipped = (*self.window, *new), self.skipped + skipped
        return replace(self, window=window, cursor=cursor, skipped=skipped, exhausted=exhausted)

    def done_if_over(self, now: int) -> Self:
        """DONE if it is RUNNING and no fire is left, else unchanged."""
        over = self.state is BackfillState.RUNNING and self.exhausted and not self.window
        return self.in_state(BackfillState.DONE, now=now, reason=None) if over else self

    def as_body(self) -> dict[str, Any]:
        """JSON-able, without the version, which is the record's; fields without a value are left out."""
        given = asdict(self) | {"spans": [[s.revision, s.after, s.upto, s.anchor] for s in self.spans]}
        del given["version"]
        return {name: value for name, value in given.items() if value is not None}

    @classmethod
    def of_body(cls, body: Mapping[str, Any], version: int) -> Self:
        """The reverse of ``as_body``; keys of a later release are ignored."""
        known = {"first": None, "last": None} | {f.name: body[f.name] for f in fields(cls) if f.name in body}
        parsed = {
            "spans": tuple(DefinitionSpan(*part) for part in body["spans"]),
            "window": tuple(body["window"]),
            "order": BackfillOrder(body["order"]),
            "state": BackfillState(body["state"]),
            "version": version,
        }
        return cls(**known | parsed)


class Readiness(StrEnum):
    """Whether a backfill may claim fires."""

    READY = "ready"
    WAITING = "waiting"  # it or its schedule is paused, or it has ended
    ORPHANED = "orphaned"  # its schedule is deleted


def readiness(backfill: StoredBackfill, head: Head | None) -> Readiness:
    """From its own state and its schedule's head. A COMPLETED schedule has no fires to come, but past ones."""
    if head is None or head.state is ScheduleState.DELETED or head.created_at != backfill.born:
        return Readiness.ORPHANED
    if backfill.state is not BackfillState.RUNNING or head.state is ScheduleState.PAUSED:
        return Readiness.WAITING
    return Readiness.READY


class FireAction(StrEnum):
    """What to do with a fire in the window."""

    CLAIM = "claim"  # it has no run
    REVIVE = "revive"  # its run never started, because its schedule or a backfill was stopped
    WAIT = "wait"  # its run is this backfill's and has not ended
    COUNT = "count"  # its run is this backfill's and has ended
    SKIP = "skip"  # its run is not this backfill's, or it may have left the ledger


def fire_action(run: RunRow | None, *, backfill: str, too_old: bool) -> FireAction:
    """Decide by the fire's row in the ledger. ``too_old``: a row of this fire may have expired there."""
    if run is None:
        return FireAction.SKIP if too_old else FireAction.CLAIM
    if is_free(run):
        return FireAction.REVIVE
    if run.backfill != backfill:
        return FireAction.SKIP
    return FireAction.COUNT if run.is_terminal else FireAction.WAIT


def is_free(run: RunRow) -> bool:
    """Whether the fire of a run can be claimed again: a stop of its schedule or backfill refused the run before it started.

    A run that its owner cancelled or skipped is not claimed again.
    """
    return run.is_terminal and run.unstarted


def claim_of(
    backfill: StoredBackfill,
    fire: int,
    *,
    revision: int,
    defined_by: int,
    job: str,
    versions: AppVersions,
    now: int,
) -> RunRow:
    """The row that claims a fire under the schedule's current ``revision``.

    It has the key of a live fire, so no fire runs twice; it may start at once.
    """
    ref = ref_of(backfill, fire)
    return RunRow(
        ref=ref,
        state=RunState.QUEUED,
        revision=revision,
        job=job,
        due=fire,
        not_before=now,
        created_at=now,
        payload=backfill.payload,
        payload_ref=backfill.payload_ref,
        tags=backfill.tags,
        backfill=backfill.id,
        defined_by=defined_by,
        app_version=versions.assigned(str(ref)),
    )


def unhurried(policies: Policies) -> Policies:
    """A job's policies for a run of a backfill: without the limits that count from the due time, which is long past."""
    return replace(policies, deadline=None, retry=replace(policies.retry, within=None))


def ref_of(backfill: StoredBackfill, fire: int) -> RunRef:
    return fire_ref(backfill.owner, fire)
