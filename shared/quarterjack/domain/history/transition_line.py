"""One transition of a run as the archive keeps it: a line of JSON.

It has no payload, no result and no error message: an archive may be immutable, and such texts may hold what must be erasable. The
names of a line's fields are those of ``TransitionLine``; ``run``, ``tenant`` and ``schedule`` are its run's, times are ISO 8601 texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal

from quarterjack.domain.message import GARBAGE, unreadable
from quarterjack.domain.names import RunRef, parse_run_id
from quarterjack.domain.payload import json_text
from quarterjack.domain.run import RunState
from quarterjack.domain.times import from_ms
from quarterjack.errors import QuarterjackError
from quarterjack.values import value

SEQUENCE_DIGITS = 40  # of a stream's sequence number, at most; texts of one length sort as their numbers do


class TransitionKind(StrEnum):
    """What happened to a run."""

    CLAIMED = "claimed"  # a fire got its run: of a schedule, or of a backfill
    SUBMITTED = "submitted"  # a one-off or a manual trigger
    LEASED = "leased"  # a worker took the lease; ``before`` is RUNNING if the former worker had vanished
    RETRIED = "retried"  # an attempt failed, and another one follows at ``not_before``
    RELEASED = "released"  # a worker that stops gave the run back
    CONTINUED = "continued"  # a slice ended at its checkpoint
    PARKED = "parked"  # its job waits: ``reason`` says for what
    WOKEN = "woken"  # what it waited for has happened
    HASTENED = "hastened"  # its owner asked for the next attempt now
    RESCHEDULED = "rescheduled"  # its owner moved a one-off to another time, which is ``due``
    QUEUED = "queued"  # it waits for other runs of its schedule
    CANCEL_REQUESTED = "cancel_requested"  # while it ran
    TAKEN_OVER = "taken_over"  # a newer revision, or its schedule after a backfill's stop, claims it again
    REVIVED = "revived"  # a backfill claims a fire that was refused before its start
    RECOUNTED = "recounted"  # the row of missed fires stands for another number of them
    BURIED = "buried"  # the undertaker recorded a run that had failed for good
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    LOST = "lost"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    SKIPPED = "skipped"
    SHADOWED = "shadowed"
    REBUILT = "rebuilt"  # no transition: the state in which the ledger was read after a gap of the stream
    REMOVED = "removed"  # the row was deleted by somebody; what expires after its retention is not reported


TransitionKindWord = (
    Literal[
        "claimed",
        "submitted",
        "leased",
        "retried",
        "released",
        "continued",
        "parked",
        "woken",
        "hastened",
        "rescheduled",
        "queued",
        "cancel_requested",
        "taken_over",
        "revived",
        "recounted",
        "buried",
        "succeeded",
        "dead",
        "lost",
        "cancelled",
        "expired",
        "superseded",
        "skipped",
        "shadowed",
        "rebuilt",
        "removed",
    ]
    | TransitionKind
)


@value(kw_only=True)
class TransitionLine:
    """One transition. ``run`` and ``sequence`` identify it: a repeated delivery gives the same line.

    It is flat because its fields are those of a line of JSON that query engines read as columns.
    """

    ref: RunRef
    kind: TransitionKind
    sequence: int  # grows with every transition of the run
    at: int  # UTC ms of the write, in whole seconds
    job: str
    revision: int
    fence: int  # leases taken
    attempt: int  # attempts begun
    before: RunState | None = None  # None: there was no run
    after: RunState | None = None  # None: there is no run any more
    worker: str | None = None  # process of the last lease
    reason: str | None = None  # of the state after it
    error_type: str | None = None  # class of the last failure, of a retry or a failed end
    error_code: str | None = None  # its code or HTTP status
    created_at: int | None = None  # UTC ms of the claim
    due: int | None = None  # UTC ms
    not_before: int | None = None  # UTC ms before which no attempt may start
    leased_at: int | None = None  # UTC ms of the last lease
    started_at: int | None = None  # UTC ms of the first lease
    ended_at: int | None = None  # UTC ms
    backfill: str | None = None  # id of the backfill that it belongs to
    replay_of: str | None = None  # id of the run that it repeats
    skipped: int | None = None  # number of missed fires that a row stands for
    parent: str | None = None  # id of the run whose child, item or task it is
    child_no: int | None = None  # its number among those, from 1
    has_result: bool | None = None  # whether its job returned something; None: it did not

    @property
    def tenant(self) -> str:
        return self.ref.tenant

    @property
    def schedule(self) -> str | None:
        """Name of the run's schedule; None for a one-off."""
        return self.ref.schedule

    @property
    def order(self) -> tuple[int, int, str]:
        """Sorts by time; lines of one run by their sequence. Equal for two deliveries of one transition only."""
        return self.at, self.sequence, str(self.ref)


_TIMES = ("at", "created_at", "due", "not_before", "leased_at", "started_at", "ended_at")
_PLAIN = (
    *("job", "revision", "fence", "attempt", "worker", "reason", "error_type", "error_code"),
    *("backfill", "replay_of", "skipped", "parent", "child_no", "has_result"),
)


def line_of(transition: TransitionLine) -> str:
    """A line without its end. What is None is left out."""
    fields: dict[str, Any] = {
        "run": str(transition.ref),
        "tenant": transition.tenant,
        "schedule": transition.schedule,
        "kind": transition.kind,
        "sequence": f"{transition.sequence:0{SEQUENCE_DIGITS}d}",
        "before": transition.before,
        "after": transition.after,
        **{name: iso(getattr(transition, name)) for name in _TIMES},
        **{name: getattr(transition, name) for name in _PLAIN},
    }
    return json_text({name: value for name, value in fields.items() if value is not None})


def parse_line(text: str | bytes) -> TransitionLine:
    """The reverse of ``line_of``; fields of a later release are ignored. Raises Unreadable."""
    try:
        row: Mapping[str, Any] = json.loads(text)
        fields: dict[str, Any] = {name: row[name] for name in _PLAIN if name in row}
        fields |= {name: ms_of(row[name]) for name in _TIMES if name in row}
        return TransitionLine(
            ref=parse_run_id(row["run"]),
            kind=TransitionKind(row["kind"]),
            sequence=int(row["sequence"]),
            before=_state(row.get("before")),
            after=_state(row.get("after")),
            **fields,
        )
    except (*GARBAGE, QuarterjackError) as problem:
        raise unreadable("line of the archive", problem) from problem


def iso(ms: int | None) -> str | None:
    """UTC milliseconds as ``2026-11-22T14:00:00.000Z``: texts of one length, which sort by time."""
    return None if ms is None else from_ms(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ms_of(text: str) -> int:
    """The reverse of ``iso``."""
    return round(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1_000)


def _state(text: str | None) -> RunState | None:
    return None if text is None else RunState(text)
