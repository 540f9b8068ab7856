"""Incidents: a run that failed for good is noted on its schedule's head, once, and its owner is told, once per incident.

    the run's row: buried ──► [ line in the index, head, revision, notice, agenda ] ──► sweep, if that paused it ──► the letter goes

What stands in brackets is one transaction, conditional on the head not having moved and on the line not being there. So a dead run is
counted if and only if it is listed, however often its letter comes; the run that is one too many and the pause are one write; and a
notice is in the agenda as soon as there is an incident. Which came first, a failure or a success, the ledger says: see ``runs.incidents``.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from itertools import islice

from minutehand.domain.agenda_entry import AgendaEntry, EntryKind
from minutehand.domain.dead_run import DeadRunRow, dead_run_row
from minutehand.domain.names import RunRef, parse_run_id
from minutehand.domain.run import RunRow
from minutehand.domain.schedule import ClosedBy, Head, Revision, ScheduleState
from minutehand.domain.times import MINUTE, STAMP_DIGITS
from minutehand.errors import NotFound, Unavailable, Unreadable
from minutehand.fires.current import revision_of
from minutehand.fires.withdraw import withdraw
from minutehand.ports.clock import Clock
from minutehand.ports.records import Record
from minutehand.ports.schedules import IncidentChange
from minutehand.ports.services import Services
from minutehand.state.incidents import IncidentDecision, after_failure
from minutehand.state.notices import notice_of, target

log = logging.getLogger(__name__)

RACES = 8  # times that the head may move before the letter is left for later
_SUCCESSES = 10  # successes among which the last is looked for


@dataclass(frozen=True, kw_only=True)
class DeadRunResult:
    """What became of a dead run's line."""

    put: bool  # it is there by this call
    began: bool = False  # an incident of its schedule began by it
    paused: bool = False  # its schedule is paused by it


@dataclass(frozen=True, kw_only=True)
class NoticeSubject:
    """The runs that a change is about, for the notices."""

    dead: DeadRunRow | None = None
    success: RunRow | None = None


def record_dead_run(run: RunRow, services: Services, clock: Clock) -> DeadRunResult:
    """List a buried run, and note it on its schedule. Raises Unavailable: then nothing is written.

    A one-off has no schedule to note it on, and a backfill's runs say nothing of how the schedule does now.
    """
    assert run.buried_at is not None
    dead, expires = dead_run_row(run), run.buried_at + services.retention
    if not is_counted(run):
        return DeadRunResult(put=services.dead_index.put(dead, expires=expires))
    for _ in range(RACES):
        head = services.schedules.head(run.ref.tenant, run.ref.owner.partition("/")[2])
        revision = None if head is None or head.state is ScheduleState.DELETED else _current(head, services)
        if head is None or revision is None:
            return DeadRunResult(put=services.dead_index.put(dead, expires=expires))
        note = _note_of(head, revision, dead, services, clock())
        note = replace(note, dead=dead, expires=expires)
        if services.schedules.note(note):
            return _entered(head, note, services, clock)
        if _is_listed(dead, services):
            _finish(head, revision, dead, services, clock)
            return DeadRunResult(put=False)
    raise Unavailable(f"the head of {run.ref.owner!r} moved {RACES} times meanwhile; the letter is tried again later")


def is_counted(run: RunRow) -> bool:
    """Whether a run says how its schedule does."""
    return not run.ref.is_one_off and run.backfill is None


def _current(head: Head, services: Services) -> Revision | None:
    """The current revision; None if it cannot be understood: that a run is dead must be known all the same."""
    try:
        return revision_of(head, services)
    except (Unreadable, NotFound):
        log.error("incident.revision_unreadable", extra={"owner": head.owner, "revision": head.revision})
        return None


def _note_of(head: Head, revision: Revision, dead: DeadRunRow, services: Services, now: int) -> IncidentChange:
    success = _last_success(head, dead, services, now)
    ended_at = None if success is None else success.ended_at
    judged = after_failure(head, dead, success=ended_at, most=revision.definition.options.pause_on_failure)
    return incident_change(
        head, judged, revision, NoticeSubject(dead=dead, success=success), now, expires=now + services.retention
    )


def _last_success(head: Head, dead: DeadRunRow, services: Services, now: int) -> RunRow | None:
    """The last success of a fire after that of the failed run, and of the one before it if that is not over."""
    due = due_of(dead.run)
    if head.incident is not None and head.failed_run is not None:
        due = min(due, due_of(parse_run_id(head.failed_run)))
    found = islice(services.ledger.succeeded(dead.run.owner, after=due, upto=now), _SUCCESSES)
    return max((run for run in found if is_counted(run)), key=lambda run: run.ended_at or 0, default=None)


def due_of(ref: RunRef) -> int:
    """The instant of a schedule's run, by its key (UTC ms)."""
    return int(ref.key[:STAMP_DIGITS])


def incident_change(
    head: Head, judged: IncidentDecision, revision: Revision, about: NoticeSubject, now: int, *, expires: int
) -> IncidentChange:
    """What a change of a head by an incident writes. ``expires`` is UTC ms, of the notices."""
    after, owner = judged.head, head.owner
    closes = after.state is not head.state
    shown = replace(revision, failing=int(after.incident is not None))
    if closes:
        until = max(now, revision.active_from)
        shown = replace(shown, active_until=until, closed_by=ClosedBy.PAUSED)
    entries: list[AgendaEntry] = []
    records: list[Record] = []
    for happened in judged.happened:
        to = target(happened.kind, revision.definition.options)
        if to is None:
            continue
        notice = notice_of(happened, after, dead=about.dead, success=about.success)
        body = {"to": to, "notice": notice.document()}
        records.append(Record(owner=owner, key=notice_key(notice.token), version=1, body=body, expires=expires))
        entries.append(_entry(revision, now + len(entries), EntryKind.NOTICE, notice.token))  # told in this order
    if after.incident not in (None, head.incident):
        entries.append(_entry(revision, now + MINUTE, EntryKind.EXPECT, after.incident or ""))
    return IncidentChange(
        head=replace(after, version=head.version + 1, updated_at=now if closes else head.updated_at),
        expected=head.version,
        revision=None if shown == revision else shown,
        closes=closes,
        entries=entries,
        records=records,
    )


def notice_key(token: str) -> str:
    """The record of a notice that is to be told."""
    return f"~notice~{token}"


def _entry(revision: Revision, due: int, kind: EntryKind, word: str) -> AgendaEntry:
    return AgendaEntry(shard=revision.shard, due=due, kind=kind, id=f"{revision.owner}#{word}", created_at=due)


def _entered(before: Head, note: IncidentChange, services: Services, clock: Clock) -> DeadRunResult:
    """It is written: say so, and take back what a pause stops."""
    began = before.incident is None and any(entry.kind is EntryKind.EXPECT for entry in note.entries)
    ids = {"tenant": before.tenant, "schedule": before.name, "run_id": note.head.failed_run}
    if note.head.failing:  # it is not over already
        log.warning("schedule.failing", extra=ids | {"failing": note.head.failing, "incident": note.head.incident})
    if note.closes and note.revision is not None:
        log.error("schedule.paused_on_failure", extra=ids | {"failing": note.head.failing})
        withdraw(note.revision, services, clock)
    return DeadRunResult(put=True, began=began, paused=note.closes)


def _is_listed(dead: DeadRunRow, services: Services) -> bool:
    index, at = services.dead_index, dead.ended_at
    lines = index.read(dead.run.tenant, after=at - 1, upto=at, only=None, before=None, page=None)
    return any(line.key == dead.key for line in lines)


def _finish(head: Head, revision: Revision, dead: DeadRunRow, services: Services, clock: Clock) -> None:
    """Whoever paused the schedule for this run may have died before the sweep."""
    if head.state is ScheduleState.PAUSED and (head.note or "").endswith(str(dead.run)) and _is_stopped(revision):
        withdraw(revision, services, clock)


def _is_stopped(revision: Revision) -> bool:
    return revision.closed_by is ClosedBy.PAUSED
