"""The measurements that a report of a role becomes: of a tick and its gauges, a buried run, a batch of the stream, an audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.domain.run import RunState
from quarterjack.signals.catalogue import counted, measured
from quarterjack.signals.measurement import Measurement, Metered, stand_ins
from quarterjack.values import replace

if TYPE_CHECKING:  # a function loads the modules of its own role only
    from quarterjack.auditor.log_closing import ClosingReport
    from quarterjack.auditor.walk import AuditReport
    from quarterjack.historian.archive import CompactionReport
    from quarterjack.historian.deliver import DeliveryReport
    from quarterjack.historian.follow import FollowReport
    from quarterjack.historian.page_compaction import PageCompactionReport
    from quarterjack.ticker.gauges import Gauges
    from quarterjack.ticker.tick import TickReport
    from quarterjack.undertaker.bury import Burial


def of_tick(report: TickReport, *, whole: bool) -> list[Measurement]:
    """The figures of one tick; ``whole``: of all shards, not of a group that another tick handed over."""
    return [*_totals(report, whole=whole), *_by_name(report), *_of_waits(report)]


def _totals(report: TickReport, *, whole: bool) -> Iterator[Measurement]:
    entries, fires, messages, schedules = (
        report.handled.agenda,
        report.handled.fires,
        report.handled.messages,
        report.handled.schedules,
    )
    yield from counted(Ticks=1) if whole else ()
    yield measured("BehindBy", report.behind)
    if messages.lags:
        yield measured("SchedulingLag", *stand_ins(messages.lags))
    yield from counted(
        TickGroups=report.groups,
        Throttled=report.throttled,
        Claimed=fires.claimed,
        Sent=messages.sent,
        SentLate=messages.sent_late,
        SendFailed=messages.send_failed,
        Resent=fires.resent,
        TakenOver=fires.taken_over,
        Lost=schedules.lost,
        Notices=schedules.told,
        Incidents=schedules.incidents,
        Recovered=schedules.recovered,
        HeldBack=entries.held,
        QueuesHeld=len(report.held),
        BreakersOpen=len(report.broken),
        EntriesLeft=entries.left,
        EntriesFailed=entries.failed,
        Quarantined=entries.quarantined,
        ShardsUnavailable=report.unavailable,
        ShardsLocked=report.locked,
        OutOfTime=report.stopped,
    )


def _by_name(report: TickReport) -> Iterator[Measurement]:
    for queue in report.held:
        yield measured("QueueHeld", 1, queue=queue)
    for miss in report.handled.fires.misses:
        yield measured("Missed", miss.late, tenant=miss.tenant, schedule=miss.schedule)
        yield measured("Skipped", miss.skipped, tenant=miss.tenant, schedule=miss.schedule)
    for backfill in report.handled.schedules.backfills:
        yield measured("BackfillFires", backfill.created, tenant=backfill.tenant, backfill=backfill.backfill)
        yield measured("BackfillLeft", backfill.left, tenant=backfill.tenant, backfill=backfill.backfill)
    for (shard, queue), age in report.ages.items():
        yield measured("EntryAge", age, shard=str(shard), queue=queue)


def _of_waits(report: TickReport) -> Iterator[Measurement]:
    """The parked runs that were checked, and the longest that one of them has waited; both also by the kind of wait."""
    checks = report.handled.waits.checks
    ages = {"": [age for _, age in checks]} if checks else {}
    for kind, age in checks:
        ages.setdefault(kind, []).append(age)
    for kind in sorted(ages):
        yield replace(measured("WaitsChecked", len(ages[kind])), reason=kind)
        yield replace(measured("LongestWait", max(ages[kind])), reason=kind)


def of_gauges(gauges: Gauges) -> list[Measurement]:
    """What waits, and the leases that have passed."""
    found = [
        measured("QueueDepth", each.depth.waiting, queue=each.queue or DEFAULT_QUEUE, sqs=each.label)
        for each in gauges.depths
        if each.depth is not None
    ]
    if gauges.ready is not None:
        found.append(measured("ReadyRuns", gauges.ready))
    if gauges.expired is not None:
        found.append(measured("ExpiredLeases", gauges.expired))
    return found


NOBODY = Metered()
_RECORDED = {RunState.DEAD: "Dead", RunState.EXPIRED: "Expired"}
_OTHERS = {"returned": "Returned", "unreadable": "Unreadable", "rejected": "Rejected"}


def of_burial(burial: Burial, metered: Metered = NOBODY) -> list[Measurement]:
    """LOST runs are counted by the worker or ticker that found them. ``metered``: who has figures of its own as well."""
    found = counted(Incidents=burial.began, PausedOnFailure=burial.paused)
    name = _RECORDED.get(burial.state) if burial.action == "recorded" else _OTHERS.get(burial.action)
    if name is None:
        return found
    one = measured(name, 1)
    found.append(one)
    run = burial.run
    if one.metric.by_job and run is not None:
        found += [replace(one, dimensions={"job": run.job})] if run.job in metered.jobs else []
        tenant = run.ref.tenant
        found += [replace(one, dimensions={"tenant": tenant})] if tenant in metered.tenants else []
    return found


def of_history(report: DeliveryReport) -> list[Measurement]:
    """Of batches that the historian has delivered."""
    found = counted(
        HistorianChanges=report.changes, HistorianSetAside=report.set_aside, HistorianUnreadable=report.unreadable
    )
    return [*found, measured("HistorianDelay", report.delay)] if report.changes else found


def of_history_round(report: FollowReport) -> list[Measurement]:
    """Of one round of a historian's process."""
    return [*counted(HistorianBatches=report.batches, HistorianStopped=report.stopped), *of_history(report)]


def of_events(report: DeliveryReport) -> list[Measurement]:
    """Of batches whose events were published."""
    return counted(EventChanges=report.changes, EventsSetAside=report.set_aside)


def of_events_round(report: FollowReport) -> list[Measurement]:
    """Of one round of the process that publishes events."""
    return [*counted(EventBatches=report.batches, EventsStopped=report.stopped), *of_events(report)]


def of_audit(report: AuditReport) -> list[Measurement]:
    """Of one audit."""
    return counted(
        Audits=1,
        Rearmed=report.rearmed,
        Unclaimed=report.unclaimed,
        AuditResent=report.resent,
        QuarantinedEntries=report.quarantined,
        AuditFailed=report.failed,
        Overdue=report.overdue,
        PayloadsRemoved=report.removed,
        SchedulesRetired=report.retired,
        RevisionsRemoved=report.revisions,
        AuditStopped=report.stopped,
    )


def of_closing(report: ClosingReport) -> list[Measurement]:
    """Of the days of the audit that were closed."""
    return counted(
        AuditDaysClosed=report.closed, AuditDaysNotClosed=report.failed, AuditContradicted=report.contradicted
    )


def of_compaction(report: CompactionReport) -> list[Measurement]:
    """Of the archive's inbox."""
    return counted(ArchiveCompacted=report.removed, ArchiveUnreadable=report.unreadable)


def of_page_compaction(report: PageCompactionReport) -> list[Measurement]:
    """Of the hours of the history that were folded."""
    return counted(HistoryFolded=report.hours, HistoryNotFolded=report.failed)
