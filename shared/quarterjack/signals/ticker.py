"""The figures of a tick, and of the gauges of every fifth minute."""

from __future__ import annotations

from collections.abc import Iterator

from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.signals.measurement import Measurement, counted, measured, stand_ins
from quarterjack.ticker.gauges import Gauges
from quarterjack.ticker.tick import TickReport


def of_tick(report: TickReport, *, whole: bool) -> list[Measurement]:
    """The figures of one tick; ``whole``: of all shards, not of a group that another tick handed over."""
    return [*_totals(report, whole=whole), *_by_name(report)]


def _totals(report: TickReport, *, whole: bool) -> Iterator[Measurement]:
    done = report.handled
    yield from counted(Ticks=1) if whole else ()
    yield measured("BehindBy", report.behind)
    if done.lags:
        yield measured("SchedulingLag", *stand_ins(done.lags))
    yield from counted(
        TickGroups=report.groups,
        Throttled=report.throttled,
        Claimed=done.claimed,
        Sent=done.sent,
        SentLate=done.sent_late,
        SendFailed=done.send_failed,
        Resent=done.resent,
        TakenOver=done.taken_over,
        Lost=done.lost,
        Notices=done.told,
        Incidents=done.incidents,
        Recovered=done.recovered,
        HeldBack=done.held,
        QueuesHeld=len(report.held),
        BreakersOpen=len(report.broken),
        EntriesLeft=done.left,
        EntriesFailed=done.failed,
        Quarantined=done.quarantined,
        ShardsUnavailable=report.unavailable,
        ShardsLocked=report.locked,
        OutOfTime=report.stopped,
    )


def _by_name(report: TickReport) -> Iterator[Measurement]:
    done = report.handled
    for queue in report.held:
        yield measured("QueueHeld", 1, queue=queue)
    for miss in done.misses:
        yield measured("Missed", miss.late, tenant=miss.tenant, schedule=miss.schedule)
        yield measured("Skipped", miss.skipped, tenant=miss.tenant, schedule=miss.schedule)
    for backfill in done.backfills:
        yield measured("BackfillFires", backfill.created, tenant=backfill.tenant, backfill=backfill.backfill)
        yield measured("BackfillLeft", backfill.left, tenant=backfill.tenant, backfill=backfill.backfill)
    for (shard, queue), age in report.ages.items():
        yield measured("EntryAge", age, shard=str(shard), queue=queue)


def of_gauges(gauges: Gauges) -> list[Measurement]:
    """What waits, and the leases that have passed."""
    found = [
        measured("StripeDepth", depth.waiting, queue=stripe.queue or DEFAULT_QUEUE, stripe=stripe.label)
        for stripe, depth in gauges.depths.items()
        if depth is not None
    ]
    if gauges.ready is not None:
        found.append(measured("ReadyRuns", gauges.ready))
    if gauges.expired is not None:
        found.append(measured("ExpiredLeases", gauges.expired))
    return found
