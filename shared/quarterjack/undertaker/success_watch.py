"""The option ``expect_success_within``, and the end of an incident: three timers that search the ledger for a success.

    entry id         is put                              checks
    tenant/name      with the revision that expects it   whether a run succeeded in time; again that long after the last success
    … #incident      with the incident                   whether it is over; each time twice as long after its beginning
    … #run           by a worker, after a success        whether that success ended the incident

While no incident is open, a success writes nothing. A worker may not change a schedule, so it only puts the third entry; if the worker
dies before, or had read the revision before the incident began, the second timer finds the success. All three end an incident by the
same transaction, conditional on the head, so its recovery is notified once.
"""

from __future__ import annotations

import logging

from quarterjack.domain.message import Message
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import AgendaEntry, EntryKind, RunRow, RunState
from quarterjack.domain.schedule import ClosedBy, Head, Revision, ScheduleState
from quarterjack.domain.times import HOUR, MINUTE
from quarterjack.errors import QuarterjackError
from quarterjack.fires.breakers import read_breakers
from quarterjack.fires.context import (
    GOES,
    STAYS,
    FireContext,
    Handled,
    ScheduleCounts,
    TickCounts,
    postpone,
    revision_of,
)
from quarterjack.ports.services import Clock, Services
from quarterjack.state.incidents import after_success, began, failing_since, without_success
from quarterjack.state.tenants.breaker import OpenPeriod
from quarterjack.undertaker.incidents import incident_change, is_counted, notify_now
from quarterjack.values import replace

log = logging.getLogger(__name__)

OVERLAP = HOUR  # a run that was due so long before an incident began may be the success that ends it


def report_success(message: Message, revision: Revision, services: Services, clock: Clock) -> None:
    """After the message's run succeeded, whose schedule was failing when it began: put an entry for the ticker."""
    if message.backfill is not None:
        return
    now = clock()
    due = now - now % MINUTE  # repeated calls put one entry
    entry = AgendaEntry(shard=revision.shard, due=due, kind=EntryKind.EXPECT, id=str(message.run), created_at=now)
    try:
        services.agenda.put([entry])
    except QuarterjackError as problem:
        log.warning("incident.success_not_reported", extra={"run_id": str(message.run), "error": str(problem)})


def watch_success(entry: AgendaEntry, context: FireContext) -> Handled:
    """The three timers."""
    services, clock = context.services, context.clock
    if entry.due > clock():
        return STAYS
    owner, _, about = entry.id.partition("#")
    tenant, _, name = owner.partition("/")
    head = services.schedules.head(tenant, name)
    if head is None or head.state is ScheduleState.DELETED:
        return GOES
    if not about:
        return _in_time(entry, head, context)
    if head.incident is None:
        return GOES
    if about[0].isdecimal():
        run = services.ledger.read(RunRef(owner, about))
        return GOES if run is None or run.state is not RunState.SUCCEEDED else _over(head, run, context)
    return GOES if head.incident != about else _is_over(entry, head, context)


def _is_over(entry: AgendaEntry, head: Head, context: FireContext) -> Handled:
    """Search the success that ends an open incident; if there is none, search again later."""
    since, now = failing_since(head), context.clock()
    for run in context.services.ledger.succeeded(head.owner, after=since - OVERLAP, upto=now):
        if is_counted(run) and (run.ended_at or 0) > since:
            return _over(head, run, context)
    age = max(now - began(head.incident or ""), MINUTE)
    return Handled(may_go=age > context.services.retention or postpone(entry, now + age, context.services))


def _over(head: Head, success: RunRow, context: FireContext) -> Handled:
    """End the incident, unless the success came before its last failure. The entry stays if the head has changed: search again."""
    decision = after_success(head, success.ended_at or 0)
    if decision.head == head:
        return GOES
    revision, now = revision_of(head, context.services), context.clock()
    change = incident_change(head, decision, revision, now, context.services, success=success)
    if not context.services.schedules.note(change):
        return STAYS
    counts = notify_now(change.entries, context) + TickCounts(schedules=ScheduleCounts(recovered=1))
    log.info("schedule.recovered", extra={"tenant": head.tenant, "schedule": head.name, "run_id": str(success.ref)})
    return Handled(may_go=True, counts=counts)


def _in_time(entry: AgendaEntry, head: Head, context: FireContext) -> Handled:
    """Whether a run succeeded in time; if not, an incident begins. A paused schedule is not checked; resuming it restarts the time."""
    if head.state is not ScheduleState.ACTIVE:
        return GOES
    revision, now = revision_of(head, context.services), context.clock()
    within = revision.success_within
    if within is None:
        return GOES
    if head.incident is not None:
        return Handled(may_go=postpone(entry, now + within, context.services))
    runs = context.services.ledger.succeeded(head.owner, after=now - 2 * within, upto=now)
    last = next((run.ended_at for run in runs if is_counted(run)), None) or _expected_since(
        head, revision, context.services
    )
    if last + within > now:
        return Handled(may_go=postpone(entry, last + within, context.services))
    decision = without_success(head, last + within)
    held = _breakers_between(head, last, now, context.services)
    change = incident_change(head, decision, revision, now, context.services, held=held)
    later = replace(entry, due=now + within, failures=0)
    if not context.services.schedules.note(replace(change, entries=[*change.entries, later])):
        return STAYS
    counts = notify_now(change.entries, context) + TickCounts(schedules=ScheduleCounts(incidents=1))
    ids = {"tenant": head.tenant, "schedule": head.name, "incident": decision.head.incident}
    log.warning("schedule.no_success", extra=ids)
    return Handled(may_go=True, counts=counts)


def _breakers_between(head: Head, since: int, until: int, services: Services) -> list[OpenPeriod]:
    """When circuit breakers held the schedule's runs between two instants (UTC ms); unknown is none: the notice goes out."""
    try:
        return read_breakers(head.tenant, services)[0].between(head.job, since, until)
    except QuarterjackError as problem:
        log.warning("breaker.unread", extra={"tenant": head.tenant, "error": str(problem)})
        return []


def _expected_since(head: Head, revision: Revision, services: Services) -> int:
    """Since when (UTC ms) a success is expected without a pause in between."""
    since = revision.active_from
    for earlier in services.schedules.history(head.owner):
        if earlier.number == revision.number:
            continue
        rested = earlier.closed_by is not ClosedBy.REPLACED or earlier.active_from < head.created_at
        if rested or earlier.success_within is None:
            break
        since = earlier.active_from
    return max(since, head.created_at)
