"""Incidents: a run that failed for good is counted on its schedule's head, once; the notice about it is delivered by a timer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.history.dead_run import DeadRunRow, dead_run_row
from quarterjack.domain.names import RunRef, one_off_ref, parse_run_id
from quarterjack.domain.notice import JOB, SCHEDULE_EVENTS, Notice, notice_key
from quarterjack.domain.run import AgendaEntry, EntryKind, RunRow, RunState
from quarterjack.domain.schedule import ClosedBy, Head, Revision, ScheduleState
from quarterjack.domain.tenants.access import KIND
from quarterjack.domain.times import MINUTE, STAMP_DIGITS
from quarterjack.errors import NotFound, Unavailable, Unreadable
from quarterjack.fires.audit_entry import actor_of, audit_entry
from quarterjack.fires.context import (
    GOES,
    STAYS,
    FireContext,
    Handled,
    ScheduleCounts,
    TickCounts,
    removed,
    revision_of,
)
from quarterjack.fires.withdraw import withdraw
from quarterjack.owner.runs.submit import SameTime, submit
from quarterjack.ports.services import Services
from quarterjack.state.incidents import IncidentDecision, after_failure, notice_of, target
from quarterjack.state.tenants.breaker import OpenPeriod
from quarterjack.stores.records import Record
from quarterjack.stores.schedules import IncidentChange
from quarterjack.values import replace

log = logging.getLogger(__name__)

RACES = 8  # times that the head may move before the letter is tried again later
AT_ONCE = 50  # notices sent by one page of entries: they must not delay the runs that are due
_SUCCESSES = 10  # the last success is searched among so many


@dataclass(frozen=True, kw_only=True)
class DeadRunResult:
    """The effect of recording a dead run."""

    put: bool  # this call put the run's entry into the index
    began: bool = False  # an incident of its schedule began by it
    paused: bool = False  # its schedule is paused by it


def record_dead_run(run: RunRow, context: FireContext) -> DeadRunResult:
    """List a buried run, and count it on its schedule. Raises Unavailable: then nothing is written."""
    assert run.buried_at is not None
    services = context.services
    dead, expires = dead_run_row(run), run.buried_at + services.retention
    if not is_counted(run):
        return DeadRunResult(put=services.dead_index.put(dead, expires=expires))
    for _ in range(RACES):
        head = services.schedules.head(run.ref.tenant, run.ref.owner.partition("/")[2])
        revision = None if head is None or head.state is ScheduleState.DELETED else _current(head, services)
        if head is None or revision is None:
            return DeadRunResult(put=services.dead_index.put(dead, expires=expires))
        change = _failure_change(head, revision, dead, context)
        change = replace(change, dead=dead, expires=expires)
        if services.schedules.note(change):
            return _after_change(head, change, context)
        at = dead.ended_at
        lines = services.dead_index.read(dead.run.tenant, after=at - 1, upto=at, only=None, before=None, page=None)
        if any(line.key == dead.key for line in lines):  # listed already
            _finish_pause(head, revision, dead, context)
            return DeadRunResult(put=False)
    raise Unavailable(f"the head of {run.ref.owner!r} moved {RACES} times meanwhile; the letter is tried again later")


def is_counted(run: RunRow) -> bool:
    """Whether a run counts for its schedule: a one-off has no schedule, and a backfill's run is about past fires."""
    return not run.ref.is_one_off and run.backfill is None


def _current(head: Head, services: Services) -> Revision | None:
    """The current revision; None if it is unreadable: the dead run is listed all the same."""
    try:
        return revision_of(head, services)
    except (Unreadable, NotFound):
        log.error("incident.revision_unreadable", extra={"owner": head.owner, "revision": head.revision})
        return None


def _failure_change(head: Head, revision: Revision, dead: DeadRunRow, context: FireContext) -> IncidentChange:
    now = context.clock()
    success = _last_success(head, dead, context.services, now)
    ended_at = None if success is None else success.ended_at
    refused = (
        dead.error_type == KIND
    )  # the job did not fail: once it is granted again, the schedule must go on by itself
    most = None if refused else revision.definition.options.pause_on_failure
    decision = after_failure(head, dead, success=ended_at, most=most)
    change = incident_change(head, decision, revision, now, context.services, dead=dead, success=success)
    if not change.closes:
        return change
    actor = actor_of(context)
    after = replace(change.head, actor=actor, paused_at=now, paused_by=actor)
    audit = audit_entry(AuditAct.PAUSE, head.owner, context, before=head, after=after, reason=after.reason)
    return replace(change, head=after, audit=audit)


def _last_success(head: Head, dead: DeadRunRow, services: Services, now: int) -> RunRow | None:
    """The last success of a run due after the failed run, or after the first failed run of an open incident."""
    due = _due_of(dead.run)
    if head.incident is not None and head.failed_run is not None:
        due = min(due, _due_of(parse_run_id(head.failed_run)))
    found = islice(services.ledger.succeeded(dead.run.owner, after=due, upto=now), _SUCCESSES)
    return max((run for run in found if is_counted(run)), key=lambda run: run.ended_at or 0, default=None)


def _due_of(ref: RunRef) -> int:
    """The due time of a schedule's run, by its key (UTC ms)."""
    return int(ref.key[:STAMP_DIGITS])


def incident_change(
    head: Head,
    decision: IncidentDecision,
    revision: Revision,
    now: int,
    services: Services,
    *,
    dead: DeadRunRow | None = None,
    success: RunRow | None = None,
    held: Sequence[OpenPeriod] = (),
) -> IncidentChange:
    """The writes of a decision: head, revision, notices and entries. The notices are about ``dead``, ``success`` and ``held``.

    A notice that is published as an event, and has no receiver, is a record alone: the stream carries it.
    """
    after, owner, expires = decision.head, head.owner, now + services.retention
    closes = after.state is not head.state
    shown = replace(revision, failing=int(after.incident is not None))
    if closes:
        until = max(now, revision.active_from)
        shown = replace(shown, active_until=until, closed_by=ClosedBy.PAUSED)
    entries: list[AgendaEntry] = []
    records: list[Record] = []
    for event in decision.events:
        to = target(event.kind, revision.definition.options)
        if to is None and SCHEDULE_EVENTS.get(event.kind) not in services.schedule_events:
            continue
        notice = notice_of(event, after, dead=dead, success=success, held=held)
        body = {"to": to, "notice": notice.document()}
        records.append(Record(owner=owner, key=notice_key(notice.token), version=1, body=body, expires=expires))
        if to is not None:
            entries.append(_entry(revision, now + len(entries), EntryKind.NOTICE, notice.token))
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


def _entry(revision: Revision, due: int, kind: EntryKind, word: str) -> AgendaEntry:
    return AgendaEntry(shard=revision.shard, due=due, kind=kind, id=f"{revision.owner}#{word}", created_at=due)


def _after_change(before: Head, change: IncidentChange, context: FireContext) -> DeadRunResult:
    """Log a written change, and withdraw the runs that its pause stops."""
    began = before.incident is None and any(entry.kind is EntryKind.EXPECT for entry in change.entries)
    ids = {"tenant": before.tenant, "schedule": before.name, "run_id": change.head.failed_run}
    if change.head.failing:  # the incident is not over already
        log.warning("schedule.failing", extra=ids | {"failing": change.head.failing, "incident": change.head.incident})
    if change.closes and change.revision is not None:
        log.error("schedule.paused_on_failure", extra=ids | {"failing": change.head.failing})
        withdraw(change.revision, context)
    return DeadRunResult(put=True, began=began, paused=change.closes)


def _finish_pause(head: Head, revision: Revision, dead: DeadRunRow, context: FireContext) -> None:
    """Withdraw again: the undertaker that paused the schedule for this run may have died before it could."""
    by_this_run = head.state is ScheduleState.PAUSED and (head.reason or "").endswith(str(dead.run))
    if by_this_run and revision.closed_by is ClosedBy.PAUSED:
        withdraw(revision, context)


def notify(entry: AgendaEntry, context: FireContext) -> Handled:
    """Deliver one notice."""
    services, notices = context.services, context.notices
    if notices.told >= AT_ONCE:
        return STAYS
    owner, _, token = entry.id.partition("#")
    record = services.records.read(owner, notice_key(token))
    if record is None:
        return GOES
    to, notice = str(record.body["to"]), Notice.of(record.body["notice"])
    if notice.owner != owner:
        raise Unreadable(f"notice {record.key!r} of {owner!r} is about {notice.owner!r}")
    if to in notices.deaf:
        return STAYS
    if to.startswith(JOB):
        submit(_notice_run(to.removeprefix(JOB), notice, context.clock()), context, same_time=SameTime.ANY)
    else:
        try:
            services.notices.publish(to, notice)
        except Exception:
            notices.deaf.add(to)
            raise
    notices.told += 1
    ids = {"tenant": notice.tenant, "schedule": notice.schedule, "incident": notice.incident}
    log.info("notice.told", extra=ids | {"kind": str(notice.kind), "to": to})
    return Handled(may_go=True, counts=TickCounts(schedules=ScheduleCounts(told=1)))


def notify_now(entries: Sequence[AgendaEntry], context: FireContext) -> TickCounts:
    """Deliver the notices among entries that were just written; if that fails, the next tick does it."""
    counts = TickCounts()
    for entry in entries:
        if entry.kind is not EntryKind.NOTICE:
            continue
        try:
            told = notify(entry, context)
            counts += told.counts
            if told.may_go:
                counts += removed([entry], context.services)
        except Exception as problem:  # noqa: BLE001 (any failure: the entry is in the agenda)
            log.warning("notice.left_to_tick", extra={"entry": entry.key, "error": str(problem)})
    return counts


def _notice_run(job: str, notice: Notice, now: int) -> RunRow:
    """The one-off that gives a job the notice. It has no schedule, so its own failure is no incident."""
    return RunRow(
        ref=one_off_ref(notice.tenant, f"notice-{notice.token}"),
        state=RunState.QUEUED,
        revision=0,
        job=job,
        due=now,
        not_before=now,
        created_at=now,
        payload=notice.encode(),
    )
