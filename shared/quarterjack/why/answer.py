"""An answer: the verdict about one fire or run, its causes, and sentences with the evidence on which each rests.

The functions at the top write instants and durations as the sentences show them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from quarterjack.domain.times import DAY, HOUR, MINUTE, SECOND, from_ms


def show(ms: int) -> str:
    """An instant (UTC ms), to the second: ``2026-05-04 09:00:00Z``."""
    return f"{from_ms(ms):%Y-%m-%d %H:%M:%S}Z"


def exact(ms: int) -> str:
    """The instant of a fire (UTC ms), with milliseconds if it has some, as those of a rate may."""
    part = f".{ms % SECOND:03}" if ms % SECOND else ""
    return f"{show(ms)[:-1]}{part}Z"


def clock(ms: int) -> str:
    """The time of day of an instant (UTC ms)."""
    return show(ms)[11:]


def span(ms: int) -> str:
    """A duration (ms) in its two largest units: ``2 h 5 min``."""
    if ms < 10 * SECOND:
        return f"{ms / SECOND:.1f} s"
    parts, left = [], ms
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s")):
        if left >= unit:
            parts.append(f"{left // unit} {name}")
            left %= unit
    return " ".join(parts[:2])


def count(number: int, what: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


class Verdict(StrEnum):
    """What became of a fire or a run. ``Answer.causes`` says why."""

    NO_FIRE = "NO_FIRE"  # by the schedule's rule nothing was due at that instant
    NOT_CREATED = "NOT_CREATED"  # the schedule did not exist yet
    PAUSED = "PAUSED"  # its schedule was paused, then or before the run had started
    DELETED = "DELETED"  # likewise: deleted
    CHANGED = "CHANGED"  # a change of the schedule took the fire away, or added it later
    UPCOMING = "UPCOMING"  # it is still to come
    NOT_CLAIMED = "NOT_CLAIMED"  # it was due, and the ticker has not handled it yet
    WAITING = (
        "WAITING"  # it is due and waits: for a worker, for its turn, for the end of a freeze, or for its next attempt
    )
    PARKED = "PARKED"  # its job waits for a time, a signal or other runs
    RUNNING = "RUNNING"  # a worker holds its lease
    VANISHED = "VANISHED"  # its worker is silent, and its lease has ended: another worker may take it
    RAN = "RAN"  # it succeeded, and began in time
    RAN_LATE = "RAN_LATE"  # it succeeded, and began more than five seconds late
    DEAD = "DEAD"  # it failed for good
    LOST = "LOST"  # delivered at most once, and its worker vanished
    CANCELLED = "CANCELLED"  # its owner, or a later run, cancelled it
    EXPIRED = "EXPIRED"  # its deadline passed before an attempt could start
    MISSED = "MISSED"  # it was claimed too late, and the catch-up policy passed it over
    SKIPPED = "SKIPPED"  # its owner, or its flow, skipped it
    OVERLAPPED = "OVERLAPPED"  # an earlier run still went on, and the overlap policy passed it over
    SHADOWED = "SHADOWED"  # its schedule runs in shadow mode
    GONE = "GONE"  # so long ago that its row has left the ledger, if there was one
    UNKNOWN = "UNKNOWN"  # the evidence does not tell


class Cause(StrEnum):
    """Something that kept a fire from running, or from running in time."""

    EXPRESSION = "expression"  # the expression does not match the instant
    CLOCK_CHANGE = "clock_change"  # the clocks skipped the time, or showed it twice
    EXCLUSION = "exclusion"  # a date, a time or weekends are excluded
    HOLIDAY = "holiday"  # of the rule's calendar
    BOUNDS = "bounds"  # start, end or max_fires of the rule
    SPREAD = "spread"  # a window or jitter moved the fire
    NOT_CREATED = "not_created"  # the schedule did not exist yet
    PAUSE = "pause"
    DELETION = "deletion"
    CHANGE = "change"  # of the schedule
    OWNER = "owner"  # skipped or cancelled it
    TICKER = "ticker"  # it claimed late, or has not claimed yet
    QUARANTINE = "quarantine"  # the chain's entry failed ten times and was moved aside
    CHAIN_MISSING = "chain_missing"  # the schedule has no entry in the agenda
    HELD_QUEUE = "held_queue"  # backpressure: the ticker held the queue back
    CATCH_UP = "catch_up"  # the policy for missed fires
    BACKFILL = "backfill"  # a backfill runs the fire, late on purpose
    FREEZE = "freeze"  # of the tenant
    SUSPENSION = "suspension"  # of the tenant
    BREAKER = "breaker"  # the tenant's circuit breaker holds the job, because it fails
    CONCURRENCY = (
        "concurrency"  # it is in the wait queue of a concurrency cap or of a flow's key, or its flow skipped it
    )
    OVERLAP = "overlap"  # of runs of one schedule: overlap, max_running
    QUEUE = "queue"  # no worker took it from its queue
    NO_WORKER = "no_worker"  # no worker of the queue is there
    BUSY = "busy"  # all slots of the queue's workers are taken
    UNKNOWN_JOB = "unknown_job"  # no worker knows the job
    VERSION = "version"  # no worker of its application version is there
    SHARED_QUEUE = "shared_queue"  # workers that do not know the job receive from its queue, too
    NOT_GRANTED = "not_granted"  # the tenant may not run the job
    DEADLINE = "deadline"
    OVERDUE = "overdue"  # it has not ended in the time that its schedule gives it
    FAILURE = "failure"  # an attempt failed
    RETRY = "retry"  # it waits for its next attempt
    RELEASE = "release"  # a worker gave it back, because it stopped
    VANISHED = "vanished"  # a worker crashed, stalled or was cut off
    SHADOW = "shadow"
    RETENTION = "retention"  # rows leave the ledger some time after their end


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """One statement of an answer."""

    text: str
    source: str  # the row, record or entry that says so, or the rule that it was computed from
    cause: Cause | None = None  # if it names something that kept the fire from running in time

    def __str__(self) -> str:
        return f"{self.text} [{self.source}]"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Why a fire or run ran, ran late, or did not run."""

    tenant: str  # its owner
    schedule: str | None  # name of its schedule; None for a one-off
    at: datetime | None  # UTC: the instant that was asked about, or at which the run was due
    run_id: str | None  # of the run; None if there is none
    verdict: Verdict  # what became of it
    sentences: Sequence[Sentence]  # why, the most important first
    asked_at: datetime  # UTC: what holds now held then

    @property
    def causes(self) -> Sequence[Cause]:
        """What kept it from running, or from running in time, each once, in the order of the sentences."""
        return tuple(dict.fromkeys(one.cause for one in self.sentences if one.cause is not None))

    def __str__(self) -> str:
        about = self.run_id or f"{self.tenant}/{self.schedule}"
        return "\n".join([f"{about}: {self.verdict}", *(f"  {sentence}" for sentence in self.sentences)])
