"""Incidents: the effect of a failed, a successful or a missing run on its schedule's head, and the events to notify.

    success    F1 dead            F2 dead             success
    ───┼──────────┼──────────────────┼───────────────────┼──────────►
       │          └ failure: notice  └ counted           └ recovery: notice
       │          (        incident, failing = 1, 2      )

An incident begins with a run that fails for good, or with a success that does not come in time, and ends with the first success after
it. The order is the order in which runs ended, not in which they were recorded: dead letters may be late and out of order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from minutehand.domain.agenda_entry import AgendaEntry, EntryKind
from minutehand.domain.dead_run import DeadRunRow
from minutehand.domain.notice import NoticeKind
from minutehand.domain.schedule import Head, Revision, ScheduleState
from minutehand.domain.times import SECOND


@dataclass(frozen=True, kw_only=True)
class IncidentEvent:
    """An event of which the owner may be notified."""

    kind: NoticeKind
    incident: str  # its id
    at: int  # UTC ms
    count: int  # consecutive runs that had failed for good by then


@dataclass(frozen=True, kw_only=True)
class IncidentDecision:
    """The new head, and the events of the change, in order."""

    head: Head
    events: tuple[IncidentEvent, ...] = ()


def incident_id(kind: NoticeKind, at: int) -> str:
    """The id of an incident that began at ``at`` (UTC ms)."""
    return f"{kind}-{at}"


def began(incident: str) -> int:
    """When an incident began (UTC ms)."""
    return int(incident.rpartition("-")[2])


def failing_since(head: Head) -> int:
    """A success ends the incident if it ended later than this (UTC ms)."""
    return max(head.failed_at or 0, 0 if head.incident is None else began(head.incident))


def after_success(head: Head, ended_at: int) -> IncidentDecision:
    """A run succeeded."""
    if ended_at <= failing_since(head):
        return IncidentDecision(head=head)
    over = () if head.incident is None else (_event(NoticeKind.RECOVERY, head.incident, ended_at, head.failing),)
    return IncidentDecision(head=replace(head, failing=0, incident=None), events=over)


def after_failure(head: Head, dead: DeadRunRow, *, success: int | None, most: int | None) -> IncidentDecision:
    """A run failed for good. ``success``: UTC ms of the last known success; ``most``: pause after so many failures."""
    if success is None:
        return _failed(head, dead, most)
    if success <= dead.ended_at:
        before = after_success(head, success)
        failed = _failed(before.head, dead, most)
        return IncidentDecision(head=failed.head, events=(*before.events, *failed.events))
    if success <= failing_since(head):
        return IncidentDecision(head=head)  # an incident of the past, which ended before the open one began
    failed = _failed(head, dead, None)  # the incident is over already: failure and recovery are notified
    after = after_success(failed.head, success)
    return IncidentDecision(head=after.head, events=(*failed.events, *after.events))


def _failed(head: Head, dead: DeadRunRow, most: int | None) -> IncidentDecision:
    """Count one more failure. A failure that is older than the last, of an incident that is over, changes nothing."""
    known = head.failed_at or 0
    if dead.ended_at < known and head.failing == 0:
        return IncidentDecision(head=head)
    after = replace(head, failing=head.failing + 1)
    if dead.ended_at >= known:
        after = replace(after, failed_at=dead.ended_at, failed_run=str(dead.run))
    events = []
    if head.incident is None:
        after = replace(after, incident=incident_id(NoticeKind.FAILURE, dead.ended_at))
        events.append(NoticeKind.FAILURE)
    if most is not None and after.failing >= most and head.state is ScheduleState.ACTIVE:
        note = f"paused by itself: {after.failing} in a row failed for good, at last {dead.run}"
        after = replace(after, state=ScheduleState.PAUSED, note=note, resume_at=None)
        events.append(NoticeKind.PAUSED)
    incident = after.incident or ""
    told = tuple(_event(kind, incident, dead.ended_at, after.failing) for kind in events)
    return IncidentDecision(head=after, events=told)


def without_success(head: Head, at: int) -> IncidentDecision:
    """No run had succeeded in time by ``at`` (UTC ms); an open incident has been notified already."""
    if head.incident is not None:
        return IncidentDecision(head=head)
    incident = incident_id(NoticeKind.NO_SUCCESS, at)
    event = _event(NoticeKind.NO_SUCCESS, incident, at, head.failing)
    return IncidentDecision(head=replace(head, incident=incident), events=(event,))


def resumed(head: Head) -> Head:
    """The head of a resumed schedule: its failures are counted from 0 again. An incident goes on until a run succeeds."""
    return replace(head, failing=0)


def _event(kind: NoticeKind, incident: str, at: int, count: int) -> IncidentEvent:
    return IncidentEvent(kind=kind, incident=incident, at=at, count=count)


# A success in time.


def allowed(revision: Revision) -> int | None:
    """How long (ms) a schedule may be without a success; None: without limit."""
    seconds = revision.definition.options.expect_success_within
    return None if seconds is None else int(seconds * SECOND)


def expectation(revision: Revision, now: int) -> AgendaEntry | None:
    """The agenda entry that checks a revision that begins now for a success in time. None if none is expected."""
    within = allowed(revision)
    if within is None:
        return None
    return AgendaEntry(shard=revision.shard, due=now + within, kind=EntryKind.EXPECT, id=revision.owner, created_at=now)
