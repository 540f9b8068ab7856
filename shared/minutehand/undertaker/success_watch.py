"""Expect: the timers that look for a success. The ledger has the answer; a success itself writes nothing while all is well.

    id               is put                              looks
    tenant/name      with the revision that expects it   whether one came in time; again a full length after the last one
    … #incident      with the incident                   whether it is over; each time twice as long after its beginning
    … #run           by a worker, after a success        whether that ended the incident

A worker may not change a schedule, so it only leaves the third; if it dies before, or had read the revision before the incident began,
the second finds the success. All three end an incident by the same transaction, conditional on the head, so it is told once.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from minutehand.domain.agenda_entry import AgendaEntry, EntryKind
from minutehand.domain.names import RunRef
from minutehand.domain.run import RunRow, RunState
from minutehand.domain.schedule import ClosedBy, Head, Revision, ScheduleState
from minutehand.domain.times import HOUR, MINUTE
from minutehand.errors import MinutehandError, Unavailable
from minutehand.fires.context import FireContext
from minutehand.fires.current import revision_of
from minutehand.fires.tick_counts import TickCounts
from minutehand.ports.clock import Clock
from minutehand.ports.schedules import IncidentChange
from minutehand.ports.services import Services
from minutehand.state.incidents import after_success, allowed, began, without_success, wrong_since
from minutehand.undertaker.incidents import NoticeSubject, incident_change, is_counted
from minutehand.undertaker.notify import notify
from minutehand.worker.delivery.outcome import ENDED, Outcome

log = logging.getLogger(__name__)

OVERLAP = HOUR  # a run whose fire came so long before an incident began may be the success that ends it


def report_success(outcome: Outcome, revision: Revision | None, services: Services, clock: Clock) -> None:
    """A run has succeeded at this worker: if its schedule was failing when it began, let the ticker look at it."""
    message = outcome.message
    if revision is None or not revision.failing or message is None or message.backfill is not None:
        return
    if outcome.state is not RunState.SUCCEEDED and outcome.why != ENDED:
        return
    now = clock()
    due = now - now % MINUTE  # so that repetitions are one
    entry = AgendaEntry(shard=revision.shard, due=due, kind=EntryKind.EXPECT, id=str(message.run), created_at=now)
    try:
        services.agenda.put([entry])
    except MinutehandError as problem:
        log.warning("incident.success_not_reported", extra={"run_id": str(message.run), "error": str(problem)})


def watch_success(entry: AgendaEntry, context: FireContext, counts: TickCounts) -> bool:
    """One of the three timers. True when the entry may go."""
    services, clock = context.services, context.clock
    if entry.due > clock():
        return False
    owner, _, about = entry.id.partition("#")
    tenant, _, name = owner.partition("/")
    head = services.schedules.head(tenant, name)
    if head is None or head.state is ScheduleState.DELETED:
        return True
    if not about:
        return _in_time(entry, head, context, counts)
    if head.incident is None:
        return True
    if about[0].isdigit():
        run = services.ledger.read(RunRef(owner, about))
        return run is None or run.state is not RunState.SUCCEEDED or _over(head, run, context, counts)
    return head.incident != about or _is_over(entry, head, context, counts)


# An incident that goes on.


def _is_over(entry: AgendaEntry, head: Head, context: FireContext, counts: TickCounts) -> bool:
    """Look for the success that ends it; if there is none, look again."""
    since, now = wrong_since(head), context.clock()
    for run in context.services.ledger.succeeded(head.owner, after=since - OVERLAP, upto=now):
        if is_counted(run) and (run.ended_at or 0) > since:
            return _over(head, run, context, counts)
    age = max(now - began(head.incident or ""), MINUTE)
    return age > context.services.retention or _again(entry, now + age, context.services)


def _over(head: Head, success: RunRow, context: FireContext, counts: TickCounts) -> bool:
    """A success: note it, unless it is older than what is wrong. False: the head has moved, look again."""
    judged = after_success(head, success.ended_at or 0)
    if judged.head == head:
        return True
    revision, now = revision_of(head, context.services), context.clock()
    note = incident_change(
        head, judged, revision, NoticeSubject(success=success), now, expires=now + context.services.retention
    )
    if not context.services.schedules.note(note):
        return False
    _tell_now(note, context, counts)
    counts.recovered += 1
    log.info("schedule.recovered", extra={"tenant": head.tenant, "schedule": head.name, "run_id": str(success.ref)})
    return True


def _tell_now(note: IncidentChange, context: FireContext, counts: TickCounts) -> None:
    """What was noted just now is told at once; if that fails, the next tick does it."""
    for entry in note.entries:
        if entry.kind is not EntryKind.NOTICE:
            continue
        try:
            if notify(entry, context, counts):
                counts.remove([entry], context.services)
        except Exception as problem:  # noqa: BLE001 (whatever it is, the entry is there)
            log.warning("notice.left_to_tick", extra={"entry": entry.key, "error": str(problem)})


# A success that is expected.


def _in_time(entry: AgendaEntry, head: Head, context: FireContext, counts: TickCounts) -> bool:
    """Whether there was a success in time. A schedule that rests is expected nothing of; resuming it begins anew."""
    if head.state is not ScheduleState.ACTIVE:
        return True
    revision, now = revision_of(head, context.services), context.clock()
    within = allowed(revision)
    if within is None:
        return True
    if head.incident is not None:
        return _again(entry, now + within, context.services)
    last = _last_success(head.owner, within, context.services, now) or _expected_since(head, revision, context.services)
    if last + within > now:
        return _again(entry, last + within, context.services)
    judged = without_success(head, last + within)
    note = incident_change(head, judged, revision, NoticeSubject(), now, expires=now + context.services.retention)
    later = replace(entry, due=now + within, failures=0)
    if not context.services.schedules.note(replace(note, entries=[*note.entries, later])):
        return False
    _tell_now(note, context, counts)
    counts.incidents += 1
    log.warning(
        "schedule.no_success", extra={"tenant": head.tenant, "schedule": head.name, "incident": judged.head.incident}
    )
    return True


def _last_success(owner: str, within: int, services: Services, now: int) -> int | None:
    """When a run last succeeded that was due within twice the time allowed (UTC ms)."""
    runs = services.ledger.succeeded(owner, after=now - 2 * within, upto=now)
    return next((run.ended_at for run in runs if is_counted(run)), None)


def _expected_since(head: Head, revision: Revision, services: Services) -> int:
    """Since when, without a rest, a success is expected of a schedule (UTC ms)."""
    since = revision.active_from
    for earlier in services.schedules.history(head.owner):
        if earlier.number == revision.number:
            continue
        rested = earlier.closed_by is not ClosedBy.REPLACED or earlier.active_from < head.created_at
        if rested or allowed(earlier) is None:
            break
        since = earlier.active_from
    return max(since, head.created_at)


def _again(entry: AgendaEntry, due: int, services: Services) -> bool:
    """Leave the same entry at a later time. Raises Unavailable."""
    later = replace(entry, due=due, failures=0)
    if later.key not in services.agenda.put([later]):
        raise Unavailable("the agenda did not accept an entry; it is tried again at the next tick")
    return True
