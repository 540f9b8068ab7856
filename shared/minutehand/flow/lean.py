"""Lean: runs that have no row before their first lease, and what gives them one where a lease alone does not do.

    in time    read the revision ─► put the row, RUNNING, on condition that there is none
    else       put the row, QUEUED, or take it over ─► read the revision again ─► as any other run

Who changes a schedule puts the rows of all fires that are in time before the call returns (``sweep``), so the first lease of one that
was taken back meanwhile is refused. A row that is QUEUED is seen by that sweep, or was put after it and so after the change, which the
second reading then finds. Duplicates meet the row, whichever of them came first.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from minutehand.domain.formats.message import Message
from minutehand.domain.freeze import freeze_key
from minutehand.domain.options import LedgerLevel
from minutehand.domain.run import RunRow, RunState
from minutehand.domain.schedule import Revision
from minutehand.domain.times import SECOND
from minutehand.errors import Unavailable
from minutehand.fires.missed import record_missed
from minutehand.flow.desk import Desk
from minutehand.flow.outcome import Outcome
from minutehand.flow.task import Task
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.decisions import OnExisting, on_existing
from minutehand.state.ledger_levels import claim_of
from minutehand.state.missed import covers
from minutehand.state.transitions import take_over, track

_ROUNDS = 3  # decisions on one row before its message comes back: each round lost means somebody else moved it
_NEAR = 5  # rows before a fire among which the gap is looked for that spans it


def claimed(desk: Desk, task: Task, message: Message) -> Task | Outcome:
    """The task with its run's row put, and what it rests on read after that. Raises Unavailable.

    An Outcome where a backfill has claimed the fire: it has its own payload and no deadline, so its own message runs it, not this one.
    """
    services, clock = desk.services, desk.clock
    put = claim(message, services, clock)
    there = None if put else services.ledger.read(message.run)
    if there is not None and there.backfill is not None:
        desk.delete(task.ticket)
        return Outcome(gone=True, action="refused", why="backfill", message=message)
    again = replace(read_again(desk, task, message), message=ordinary(message))
    if put and again.revision is not None:
        _correct_gap(again.revision, message.due, services, clock)
    return again


def read_again(desk: Desk, task: Task, message: Message) -> Task:
    """The task with what it rests on, its revision and its tenant's freeze, read now. Raises Unavailable."""
    keys = {(message.run.owner, message.revision), freeze_key(message.run.tenant)}
    read = desk.services.schedules.revisions(keys)
    return replace(task, revisions=replace(read, read_at=desk.clock()))


def ordinary(message: Message) -> Message:
    """The message of a run that has its row."""
    return replace(message, ledger=LedgerLevel.FULL)


def claim(message: Message, services: Services, clock: Clock) -> bool:
    """Put the row that a ticker would have put, or take it over from an older revision; whether it was put. Raises Unavailable.

    Whatever else is there decides by itself. A run whose row may have expired already is put as passed over: it may have been run.
    """
    if message.untracked:
        services.ledger.move(message.run, track(revision=message.revision))
    if not message.unclaimed:
        return False
    wanted = _beyond_retention(claim_of(message, clock()), services, clock())
    for _ in range(_ROUNDS):
        answer = services.ledger.claim([wanted])
        if wanted.ref in answer.created:
            return True
        there = answer.existing.get(wanted.ref)
        if there is None and wanted.ref not in answer.unreadable:
            raise Unavailable(f"run {wanted.ref}: the ledger did not answer")
        if there is None or on_existing(there, message.revision) is not OnExisting.TAKE_OVER:
            return False
        if _take_over(there, message, services, clock()):
            return False
    raise Unavailable(f"run {wanted.ref}: others keep moving it")


def _take_over(there: RunRow, message: Message, services: Services, now: int) -> bool:
    job, at = message.job, message.not_before
    write = take_over(revision=message.revision, job=job, not_before=at, now=now, seen=there.state)
    return services.ledger.move(there.ref, write).applied


def _beyond_retention(run: RunRow, services: Services, now: int) -> RunRow:
    if now - run.due < services.retention - SECOND:
        return run
    return replace(run, state=RunState.SKIPPED, ended_at=now, reason="later than the ledger's retention")


def _correct_gap(revision: Revision, fire: int, services: Services, clock: Clock) -> None:
    """A run that is claimed late is none of those that a gap's row stands for."""
    rows = islice(services.ledger.latest(revision.owner, upto=fire), _NEAR)
    gap = next((row for row in rows if row.revision == revision.number and covers(row, fire)), None)
    if gap is not None:
        record_missed(revision, (), gap.due - 1, services, clock)
