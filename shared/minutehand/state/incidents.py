"""Incidents: what a failed, a successful or a missing run means for its schedule. A head goes in, a head and what to tell come out.

    success    F1 dead            F2 dead             success
    ───┼──────────┼──────────────────┼───────────────────┼──────────►
       │          └ failure: told    └ counted           └ recovery: told
       │          (        incident, failing = 1, 2      )

An incident begins with a run that fails for good, or with a success that does not come in time, and ends with the first success after
it. What comes first is decided by when runs ended, not by when somebody heard of it: verdicts may be late and out of order.
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
    """Something that an owner may want to be told."""

    kind: NoticeKind
    incident: str  # its id
    at: int  # UTC ms
    count: int  # runs in a row that had failed for good then


@dataclass(frozen=True, kw_only=True)
class IncidentDecision:
    """A head as it shall be, and what happened by that, in its order."""

    head: Head
    happened: tuple[IncidentEvent, ...] = ()


def incident_id(kind: NoticeKind, at: int) -> str:
    """The id of an incident that began at ``at`` (UTC ms)."""
    return f"{kind}-{at}"


def began(incident: str) -> int:
    """When an incident began (UTC ms)."""
    return int(incident.rpartition("-")[2])


def wrong_since(head: Head) -> int:
    """A success ends what is wrong with a schedule if it ended later than this (UTC ms)."""
    return max(head.failed_at or 0, 0 if head.incident is None else began(head.incident))


def after_success(head: Head, ended_at: int) -> IncidentDecision:
    """A run succeeded."""
    if ended_at <= wrong_since(head):
        return IncidentDecision(head=head)
    over = () if head.incident is None else (_happened(NoticeKind.RECOVERY, head.incident, ended_at, head.failing),)
    return IncidentDecision(head=replace(head, failing=0, incident=None), happened=over)


def after_failure(head: Head, dead: DeadRunRow, *, success: int | None, most: int | None) -> IncidentDecision:
    """A run failed for good, as is heard now. ``success``: UTC ms of the last success that is known; ``most``: pause after so many."""
    if success is None:
        return _failed(head, dead, most)
    if success <= dead.ended_at:
        before = after_success(head, success)
        failed = _failed(before.head, dead, most)
        return IncidentDecision(head=failed.head, happened=(*before.happened, *failed.happened))
    if success <= wrong_since(head):
        return IncidentDecision(head=head)  # it is of an earlier row, which was over before the present one began
    failed = _failed(head, dead, None)  # it is over before anybody heard of it: both are told
    after = after_success(failed.head, success)
    return IncidentDecision(head=after.head, happened=(*failed.happened, *after.happened))


def _failed(head: Head, dead: DeadRunRow, most: int | None) -> IncidentDecision:
    """One failure more. One that is older than the last, of a row that is over, changes nothing."""
    known = head.failed_at or 0
    if dead.ended_at < known and head.failing == 0:
        return IncidentDecision(head=head)
    noted = replace(head, failing=head.failing + 1)
    if dead.ended_at >= known:
        noted = replace(noted, failed_at=dead.ended_at, failed_run=str(dead.run))
    happened = []
    if head.incident is None:
        noted = replace(noted, incident=incident_id(NoticeKind.FAILURE, dead.ended_at))
        happened.append(NoticeKind.FAILURE)
    if most is not None and noted.failing >= most and head.state is ScheduleState.ACTIVE:
        note = f"paused by itself: {noted.failing} in a row failed for good, at last {dead.run}"
        noted = replace(noted, state=ScheduleState.PAUSED, note=note, resume_at=None)
        happened.append(NoticeKind.PAUSED)
    incident = noted.incident or ""
    told = tuple(_happened(kind, incident, dead.ended_at, noted.failing) for kind in happened)
    return IncidentDecision(head=noted, happened=told)


def without_success(head: Head, at: int) -> IncidentDecision:
    """No run had succeeded in time by ``at`` (UTC ms); an incident that goes on already is told already."""
    if head.incident is not None:
        return IncidentDecision(head=head)
    incident = incident_id(NoticeKind.NO_SUCCESS, at)
    told = _happened(NoticeKind.NO_SUCCESS, incident, at, head.failing)
    return IncidentDecision(head=replace(head, incident=incident), happened=(told,))


def resumed(head: Head) -> Head:
    """The head of a schedule that is resumed: its failures are counted anew. An incident goes on until a run succeeds."""
    return replace(head, failing=0)


def _happened(kind: NoticeKind, incident: str, at: int, count: int) -> IncidentEvent:
    return IncidentEvent(kind=kind, incident=incident, at=at, count=count)


# A success that does not come.


def allowed(revision: Revision) -> int | None:
    """How long (ms) a schedule may be without a success; None: as long as it likes."""
    seconds = revision.definition.options.expect_success_within
    return None if seconds is None else int(seconds * SECOND)


def expectation(revision: Revision, now: int) -> AgendaEntry | None:
    """The agenda entry of a revision that begins now: whether it had a success in time. None if nobody expects one."""
    within = allowed(revision)
    if within is None:
        return None
    return AgendaEntry(shard=revision.shard, due=now + within, kind=EntryKind.EXPECT, id=revision.owner, created_at=now)
