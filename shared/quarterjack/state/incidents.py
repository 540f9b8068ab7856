"""Incidents: the effect of a failed, a successful or a missing run on its schedule, overdue runs, and the notices for their owner. Pure.

A run is overdue by the options of its schedule, by the earlier of:

    must_end_by                     its due time ─────────────────────► the first such time of day, or so many seconds later
    alert_if_running_longer_than    its first start ──► so many seconds later, with its retries and waits

It is an incident of its own and does not change its schedule. Runs of a backfill are not watched. Of a missed fire that runs by
``automatic_backfill``, which is late by design, only the running time counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quarterjack.domain.history.dead_run import DeadRunRow
from quarterjack.domain.notice import ENDINGS, Notice, NoticeKind
from quarterjack.domain.options import Options
from quarterjack.domain.run import MISSED, RunRow
from quarterjack.domain.schedule import Head, Revision, ScheduleState
from quarterjack.domain.times import MINUTE, SECOND, from_ms
from quarterjack.state.lease import SKEW
from quarterjack.state.tenants.breaker import OpenPeriod, breaker_of
from quarterjack.timing import Rule, timetable
from quarterjack.values import replace, value

_SELDOMER = 8  # a check of a run that has waited for long comes after an eighth of that time


def target(kind: NoticeKind, options: Options) -> str | None:
    """The receiver of a notice: the ARN of an SNS topic or ``job:NAME``; None: no notice is sent."""
    return options.on_recovery if kind in ENDINGS else options.on_failure


def notice_of(
    event: IncidentEvent,
    head: Head,
    *,
    dead: DeadRunRow | None = None,
    success: RunRow | None = None,
    held: Sequence[OpenPeriod] = (),
) -> Notice:
    """The notice of an event. ``dead`` is the run that failed, ``success`` the run that succeeded, if there is one.

    ``held``: when circuit breakers kept runs from starting that were expected to succeed.
    """
    by_breaker = "; ".join(map(_open, held)) or None
    failed, succeeded = (None, success) if event.kind is NoticeKind.RECOVERY else (dead, None)
    return Notice(
        kind=event.kind,
        tenant=head.tenant,
        schedule=head.name,
        job=head.job,
        incident=event.incident,
        began=_when(began(event.incident)),
        at=_when(event.at),
        count=event.count,
        text=_sentence(event, head, failed, by_breaker),
        run=str(succeeded.ref) if succeeded else str(failed.run) if failed else None,
        state=str(succeeded.state) if succeeded else str(failed.state) if failed else None,
        reason=failed.reason if failed else by_breaker,
        error_type=failed.error_type if failed else None,
        error=failed.error if failed else None,
    )


def _sentence(event: IncidentEvent, head: Head, failed: DeadRunRow | None, by_breaker: str | None) -> str:
    match event.kind:
        case NoticeKind.RECOVERY:
            return f"{head.owner} has recovered: a run succeeded at {_when(event.at)}."
        case NoticeKind.NO_SUCCESS:
            held = "" if by_breaker is None else f" Its runs were held: {by_breaker}."
            return f"{head.owner} had no success in time: one was expected by {_when(event.at)}.{held}"
        case NoticeKind.PAUSED:
            return f"{head.owner} is paused, because {event.count} of its runs in a row failed for good{_why(failed)}"
        case _:
            return f"{head.owner} fails: a run of job {head.job!r} failed for good{_why(failed)}"


def _open(period: OpenPeriod) -> str:
    of = f"{breaker_of(period.job)} was open from {_when(period.since)}"
    return f"{of} on" if period.until is None else f"{of} to {_when(period.until)}"


def _why(failed: DeadRunRow | None) -> str:
    if failed is None:
        return "."
    error = f": {failed.error_type}: {failed.error}" if failed.error_type else ""
    return f" ({failed.reason}){error}"


def _when(ms: int) -> str:
    return from_ms(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@value()
class IncidentEvent:
    """An event of which the owner may be notified."""

    kind: NoticeKind
    incident: str  # its id: the kind of its first event, and when it began (UTC ms)
    at: int  # UTC ms
    count: int  # consecutive runs that had failed for good by then


@value()
class IncidentDecision:
    """The new head, and the events of the change, in order."""

    head: Head
    events: tuple[IncidentEvent, ...] = ()


def began(incident: str) -> int:
    """When an incident began (UTC ms)."""
    return int(incident.rpartition("-")[2])


def failing_since(head: Head) -> int:
    """A success ends the incident if it ended later than this (UTC ms)."""
    return max(head.failed_at or 0, 0 if head.incident is None else began(head.incident))


def after_success(head: Head, ended_at: int) -> IncidentDecision:
    if ended_at <= failing_since(head):
        return IncidentDecision(head)
    known = head.incident
    over = () if known is None else (IncidentEvent(NoticeKind.RECOVERY, known, ended_at, head.failing),)
    return IncidentDecision(replace(head, failing=0, incident=None), over)


def after_failure(head: Head, dead: DeadRunRow, *, success: int | None, most: int | None) -> IncidentDecision:
    """A run failed for good. ``success``: UTC ms of the last known success; ``most``: pause after so many failures."""
    if success is None:
        return _failed(head, dead, most)
    if success <= dead.ended_at:
        before = after_success(head, success)
        failed = _failed(before.head, dead, most)
        return IncidentDecision(failed.head, (*before.events, *failed.events))
    if success <= failing_since(head):
        return IncidentDecision(head)  # an incident of the past, which ended before the open one began
    failed = _failed(head, dead, None)  # the incident is over already: failure and recovery are notified
    after = after_success(failed.head, success)
    return IncidentDecision(after.head, (*failed.events, *after.events))


def _failed(head: Head, dead: DeadRunRow, most: int | None) -> IncidentDecision:
    """Count one more failure. One that is no later than the last failure of an incident that is over changes nothing."""
    known = head.failed_at or 0
    if dead.ended_at <= known and head.failing == 0:
        return IncidentDecision(head)
    after = replace(head, failing=head.failing + 1)
    if dead.ended_at >= known:
        after = replace(after, failed_at=dead.ended_at, failed_run=str(dead.run))
    kinds = []
    if head.incident is None:
        after = replace(after, incident=f"{NoticeKind.FAILURE}-{dead.ended_at}")
        kinds.append(NoticeKind.FAILURE)
    if most is not None and after.failing >= most and head.state is ScheduleState.ACTIVE:
        reason = f"paused by itself: {after.failing} in a row failed for good, at last {dead.run}"
        after = replace(after, state=ScheduleState.PAUSED, reason=reason, resume_at=None)
        kinds.append(NoticeKind.PAUSED)
    events = (IncidentEvent(kind, after.incident or "", dead.ended_at, after.failing) for kind in kinds)
    return IncidentDecision(after, tuple(events))


def without_success(head: Head, at: int) -> IncidentDecision:
    """No run had succeeded in time by ``at`` (UTC ms); an open incident has been notified already."""
    if head.incident is not None:
        return IncidentDecision(head)
    event = IncidentEvent(NoticeKind.NO_SUCCESS, f"{NoticeKind.NO_SUCCESS}-{at}", at, head.failing)
    return IncidentDecision(replace(head, incident=event.incident), (event,))


def resumed(head: Head) -> Head:
    """The head of a resumed schedule: its failures are counted from 0 again. An incident goes on until a run succeeds."""
    return replace(head, failing=0)


# Overdue runs.


@value()
class Limit:
    """When a run is over its time, by one of its schedule's options."""

    at: int  # UTC ms
    option: str  # its name
    text: str  # the option with its value

    def __str__(self) -> str:
        return f"{self.text} was over at {_when(self.at)}"


def ends_by(due: int, by: float | str, timezone: str) -> int:
    """The instant (UTC ms) by which a run that is due then has to end. A time of day that a clock change skips is the next valid one."""
    if not isinstance(by, str):
        return due + int(by * SECOND)
    hour, minute = by.split(":")
    daily = timetable(Rule(expression=f"{int(minute)} {int(hour)} * * *", timezone=timezone), anchor=0)
    return daily.next(due) or due


def limit_of(run: RunRow, revision: Revision) -> Limit | None:
    """The first limit of a run, as far as it is known now; ``revision`` defines it."""
    return min(_limits(run, revision), key=lambda limit: limit.at, default=None)


def _limits(run: RunRow, revision: Revision) -> Iterator[Limit]:
    options = revision.definition.options
    by, longest = options.must_end_by, options.alert_if_running_longer_than
    is_late_by_design = options.backfills_missed and run.created_at - run.due > MISSED
    if by is not None and not is_late_by_design:
        at = ends_by(run.due, by, revision.definition.rule.timezone)
        yield Limit(at, "must_end_by", f"must_end_by={by!r}")
    if longest is not None and run.started_at is not None:
        at = run.started_at + int(longest * SECOND)
        yield Limit(at, "alert_if_running_longer_than", f"alert_if_running_longer_than={longest:g}")


def first_check(due: int, revision: Revision) -> int:
    """When (UTC ms) a run of a watched schedule is checked first. SKEW: no run is told that ended in time by its worker's clock."""
    options = revision.definition.options
    by, longest = options.must_end_by, options.alert_if_running_longer_than
    found = [] if by is None else [ends_by(due, by, revision.definition.rule.timezone)]
    found += [] if longest is None else [due + int(longest * SECOND)]
    return min(found) + SKEW


def next_check(run: RunRow, revision: Revision, now: int) -> int:
    """When (UTC ms) a run is checked next that is not over its time. One that waits for its start may begin right after this check."""
    limit, longest = limit_of(run, revision), revision.definition.options.alert_if_running_longer_than
    found = [] if limit is None else [limit.at + SKEW]
    if longest is not None and run.started_at is None:
        found.append(now + max(int(longest * SECOND), (now - run.due) // _SELDOMER) + SKEW)
    return max(min(found), now + MINUTE)


def next_end_check(since: int, now: int) -> int:
    """When (UTC ms) it is looked next whether a run has ended that is overdue ``since`` then."""
    return now + min(max((now - since) // _SELDOMER, MINUTE), 15 * MINUTE)


def overdue_notice(run: RunRow, limit: Limit, now: int) -> Notice:
    """The notice that a run is over its time."""
    doing = "has not started" if run.started_at is None else f"has not ended; it began at {_when(run.started_at)}"
    text = f"{run.ref.owner} has an overdue run: {run.ref} {doing}, and {limit}."
    return _notice(NoticeKind.OVERDUE, run, since=limit.at, at=now, text=text, reason=str(limit))


def ended_notice(run: RunRow, since: int) -> Notice:
    """The notice that a run has ended that was overdue ``since`` then (UTC ms)."""
    at = run.ended_at or since
    text = f"{run.ref.owner} has no overdue run any more: {run.ref} is {run.state} since {_when(at)}."
    return _notice(NoticeKind.OVERDUE_ENDED, run, since=since, at=at, text=text, reason=run.reason)


def _notice(kind: NoticeKind, run: RunRow, *, since: int, at: int, text: str, reason: str | None) -> Notice:
    tenant, _, schedule = run.ref.owner.partition("/")
    return Notice(
        kind=kind,
        tenant=tenant,
        schedule=schedule,
        job=run.job,
        incident=f"{NoticeKind.OVERDUE}-{run.ref.key}",
        began=_when(since),
        at=_when(at),
        count=0,
        text=text,
        run=str(run.ref),
        state=str(run.state),
        reason=reason,
    )
