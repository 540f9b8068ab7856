"""Backfill: what one is, where its lanes stand, and what to do at a position. Pure.

A backfill hands the fires of an interval to ``concurrency`` lanes in turn: the n-th fire belongs to lane n modulo concurrency. A
lane is at one fire at a time, so a backfill never has more than ``concurrency`` runs that have not ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any, Self

from minutehand.domain.names import RunRef, fire_ref
from minutehand.domain.policies import Policies
from minutehand.domain.run import RunRow, RunState
from minutehand.domain.schedule import Head, ScheduleState
from minutehand.domain.times import MINUTE

MOST_LANES = 100  # runs of one backfill at the same time
ROW_PAYLOAD = 400  # bytes of its payload in every run's row; more lies in the bucket, as updates bill the whole row
MARGIN = MINUTE  # ms by which a fire must be younger than the retention: clocks differ from that of the table's expiry


class BackfillState(StrEnum):
    """Where a backfill stands."""

    PLANNED = "PLANNED"  # a dry run: nothing was written
    RUNNING = "RUNNING"  # its lanes go on; while its schedule is paused they wait
    PAUSED = "PAUSED"  # its owner holds it; runs that had started go on to their end
    CANCELLED = "CANCELLED"  # ended by its owner, or because its schedule was deleted
    DONE = "DONE"  # every fire is dealt with


ENDED = frozenset({BackfillState.CANCELLED, BackfillState.DONE})


class BackfillOrder(StrEnum):
    """Which fires come first."""

    OLDEST = "oldest"
    NEWEST = "newest"


@dataclass(frozen=True)
class Stretch:
    """A part of the interval with one definition: the fires in ``(after, upto]``."""

    revision: int  # number of the revision that defines it
    after: int  # UTC ms, exclusive
    upto: int  # UTC ms, inclusive
    anchor: int  # UTC ms from which rates and ``max_fires`` count


@dataclass(frozen=True, kw_only=True)
class Backfill:
    """One backfill; all but its state is fixed when it is created."""

    id: str  # sorts by the time of its creation
    tenant: str  # whose
    name: str  # of the schedule
    born: int  # UTC ms of the creation of the schedule: its successor of the same name is another one
    start: int  # UTC ms, inclusive
    end: int  # UTC ms, exclusive
    order: BackfillOrder  # which fires come first
    concurrency: int  # lanes
    stretches: tuple[Stretch, ...]  # those with fires, oldest first
    total: int  # fires in all
    first: int | None  # UTC ms of the first fire in time; None if there is none
    last: int | None  # UTC ms of the last
    created_at: int  # UTC ms
    state: BackfillState = BackfillState.RUNNING
    ended_at: int | None = None  # UTC ms
    reason: str | None = None  # why it is in this state
    payload: str | None = None  # JSON text for every run, instead of its definition's; or
    payload_ref: str | None = None  # its key in the bucket
    allow_repeat: bool = False  # whether fires are claimed that are older than the ledger remembers

    @property
    def owner(self) -> str:
        return f"{self.tenant}/{self.name}"

    def floor(self, now: int, retention: int) -> int | None:
        """Fires before this instant (UTC ms) are passed over: their rows may have left the ledger. None: no such bound."""
        return None if self.allow_repeat else now - retention + MARGIN

    def as_body(self) -> dict[str, Any]:
        """JSON-able; what says nothing is left out."""
        given = asdict(self) | {"stretches": [[s.revision, s.after, s.upto, s.anchor] for s in self.stretches]}
        return {name: value for name, value in given.items() if value is not None}

    @classmethod
    def of_body(cls, body: Mapping[str, Any]) -> Self:
        """The reverse of ``as_body``; keys of a later release are passed over."""
        known = {"first": None, "last": None} | {f.name: body[f.name] for f in fields(cls) if f.name in body}
        return cls(
            **known
            | {
                "stretches": tuple(Stretch(*part) for part in body["stretches"]),
                "order": BackfillOrder(body["order"]),
                "state": BackfillState(body["state"]),
            }
        )


@dataclass(frozen=True, kw_only=True)
class Lane:
    """Where a lane stands. ``version`` is that of its record: 0 before it has one."""

    number: int  # 0 to concurrency - 1
    index: int = -1  # of the fire that it is at, in the backfill's order; -1 before the first
    fire: int = 0  # UTC ms of that fire
    is_open: bool = False  # whether that fire still has to be dealt with
    over: bool = False  # whether no fire is left
    done: int = 0  # runs that ended
    failed: int = 0  # of these, without success
    skipped: int = 0  # fires passed over: a run was there, or could have been and left the ledger
    moved_at: int = 0  # UTC ms at which it came here
    version: int = 0

    def at(self, index: int, fire: int, *, passed: int, now: int) -> Lane:
        """The lane at its next fire, after ``passed`` fires that it did not stop at."""
        return self._moved(passed, now, index=index, fire=fire, is_open=True)

    def beyond(self, index: int, fire: int, *, passed: int, now: int) -> Lane:
        """The lane behind fires that it did not stop at: to go on from there."""
        return self._moved(passed, now, index=index, fire=fire, is_open=False)

    def ended(self, *, passed: int, now: int) -> Lane:
        """The lane without a further fire."""
        return self._moved(passed, now, is_open=False, over=True)

    def _moved(self, passed: int, now: int, **place: Any) -> Lane:
        return replace(self, skipped=self.skipped + passed, moved_at=now, version=self.version + 1, **place)

    def counted(self, run: RunRow | None) -> Lane:
        """The lane after the run at its fire has ended; None: the fire was passed over."""
        if run is None or run.state is RunState.SKIPPED:
            return replace(self, is_open=False, skipped=self.skipped + 1)
        failed = run.state not in (RunState.SUCCEEDED, RunState.SHADOWED)
        return replace(self, is_open=False, done=self.done + 1, failed=self.failed + failed)

    def as_body(self) -> dict[str, Any]:
        """JSON-able; the version is the record's."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "version"}

    @classmethod
    def of_body(cls, body: Mapping[str, Any], version: int) -> Self:
        """The reverse of ``as_body``."""
        return cls(**{f.name: body[f.name] for f in fields(cls) if f.name in body} | {"version": version})


# What a run says of its backfill.


def tag_of(backfill: str, lane: int) -> str:
    """What the run's row and message carry."""
    return f"{backfill}~{lane}"


def parse_tag(tag: str) -> tuple[str, int]:
    """The id of the backfill and the number of the lane. Raises ValueError."""
    backfill, _, lane = tag.partition("~")
    return backfill, int(lane)


def backfill_id(tag: str | None) -> str | None:
    """The id of the backfill alone."""
    return None if tag is None else tag.partition("~")[0]


# Decisions.


class Standing(StrEnum):
    """Whether runs of a backfill may start."""

    GOES = "goes"
    WAITS = "waits"  # it or its schedule is paused, or it has ended
    ORPHANED = "orphaned"  # its schedule is gone


def standing(backfill: Backfill, head: Head | None) -> Standing:
    """As its own state and its schedule's head have it. A COMPLETED schedule has no fires to come, but past ones."""
    if head is None or head.state is ScheduleState.DELETED or head.created_at != backfill.born:
        return Standing.ORPHANED
    if backfill.state is not BackfillState.RUNNING or head.state is ScheduleState.PAUSED:
        return Standing.WAITS
    return Standing.GOES


class AtFire(StrEnum):
    """What to do with the fire that a lane is at."""

    CLAIM = "claim"  # it has no run
    REVIVE = "revive"  # its run never started, because its schedule or a backfill was stopped
    AWAIT = "await"  # its run is ours and has not ended
    COUNT = "count"  # its run is ours and has ended
    LEAVE = "leave"  # its run is not ours, or it may have left the ledger


def at_fire(run: RunRow | None, *, tag: str, too_old: bool) -> AtFire:
    """The fire's run, as the ledger has it, decides. ``too_old``: a run of this fire may have left the ledger."""
    if run is None:
        return AtFire.LEAVE if too_old else AtFire.CLAIM
    if is_free(run):
        return AtFire.REVIVE
    if run.backfill != tag:
        return AtFire.LEAVE
    return AtFire.COUNT if run.is_terminal else AtFire.AWAIT


def is_free(run: RunRow) -> bool:
    """Whether a run that is there does not stand in the way: refused by a stop before it ever started.

    One that its owner cancelled or skipped as a run stays so; a waiting one comes by itself.
    """
    return run.is_terminal and run.unstarted


def claim_of(backfill: Backfill, lane: Lane, *, revision: int, defined_by: int, job: str, now: int) -> RunRow:
    """The row that claims the fire which a lane is at, under the schedule's current ``revision``.

    It has the key of a live fire, so no fire runs twice; it may start at once.
    """
    return RunRow(
        ref=fire_of(backfill, lane),
        state=RunState.QUEUED,
        revision=revision,
        job=job,
        due=lane.fire,
        not_before=now,
        created_at=now,
        payload=backfill.payload,
        payload_ref=backfill.payload_ref,
        backfill=tag_of(backfill.id, lane.number),
        defined_by=defined_by,
    )


def unhurried(policies: Policies) -> Policies:
    """A job's policies for a run of a backfill: it is long past its time, so no limit counts from there."""
    return replace(policies, deadline=None, retry=replace(policies.retry, within=None))


def fire_of(backfill: Backfill, lane: Lane) -> RunRef:
    """The run of the fire that a lane is at."""
    return fire_ref(backfill.owner, lane.fire)
