"""Every metric: its name, its unit, the roles that emit it, and what it says.

Alarms, the dashboard and the reference page are checked against this table, so that none of them names a metric that nobody emits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """The units of CloudWatch that metrics have."""

    COUNT = "Count"
    MILLISECONDS = "Milliseconds"
    MEGABYTES = "Megabytes"
    PERCENT = "Percent"


class Kind(StrEnum):
    """How values of a metric are put together: added up, spread over a distribution, or replaced by the latest."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


class Emitter(StrEnum):
    """Who emits a metric, as a function or as a process."""

    TICKER = "ticker"
    WORKER = "worker"
    UNDERTAKER = "undertaker"
    AUDITOR = "auditor"
    HISTORIAN = "historian"
    EVENTS = "events"


@dataclass(frozen=True)
class Metric:
    """One metric. ``names``: what its line says beside the figure, and CloudWatch does not bill as a dimension."""

    name: str
    unit: Unit
    kind: Kind
    roles: tuple[Emitter, ...]
    meaning: str
    names: tuple[str, ...] = ()
    by_job: bool = False  # also by job and by tenant, for those of ``metric_jobs`` and ``metric_tenants``
    processes_only: bool = False  # from `quarterjack worker` alone
    zeros: bool = False  # written although it is 0


def _counts(role: Emitter, *rows: tuple[str, str], by_job: bool = False) -> tuple[Metric, ...]:
    return tuple(Metric(name, Unit.COUNT, Kind.COUNTER, (role,), text, by_job=by_job) for name, text in rows)


def _named(role: Emitter, names: tuple[str, ...], *rows: tuple[str, str]) -> tuple[Metric, ...]:
    return tuple(Metric(name, Unit.COUNT, Kind.COUNTER, (role,), text, names=names) for name, text in rows)


_TICKER = (
    Metric("Ticks", Unit.COUNT, Kind.COUNTER, (Emitter.TICKER,), "whole ticks, groups of shards left out", zeros=True),
    Metric(
        "BehindBy",
        Unit.MILLISECONDS,
        Kind.GAUGE,
        (Emitter.TICKER,),
        "from the oldest due entry to now: the health of the scheduler",
        zeros=True,
    ),
    Metric(
        "SchedulingLag",
        Unit.MILLISECONDS,
        Kind.HISTOGRAM,
        (Emitter.TICKER,),
        "from a fire's time to the acceptance of its message; 0 if it was accepted ahead. At most 100 values a tick, which stand for all",
        zeros=True,
    ),
    *_counts(
        Emitter.TICKER,
        ("TickGroups", "groups of shards that were handed over to further invocations"),
        ("Throttled", "items that DynamoDB or SQS refused for lack of capacity; each was sent again, more slowly"),
        ("Claimed", "runs created"),
        ("Sent", "messages accepted"),
        ("SentLate", "of these, accepted more than 5 s after their time"),
        ("SendFailed", "messages that a queue refused or did not answer for; their entries stay"),
        ("Resent", "messages accepted for runs that existed already"),
        ("TakenOver", "runs taken over from an older revision"),
        ("Notices", "notices sent to topics and jobs"),
        ("Recovered", "incidents that are over"),
        ("HeldBack", "entries that stay in the agenda because their queue is held back, or a circuit breaker is open"),
        ("QueuesHeld", "queues that are held back"),
        ("BreakersOpen", "tenants with an open circuit breaker, of which entries were held back"),
        ("EntriesLeft", "entries left for the next tick because a request got no response"),
        ("EntriesFailed", "entries that failed by themselves"),
        ("Quarantined", "of these, moved aside after ten failures"),
        ("ShardsUnavailable", "shards that could not be read to the end"),
        ("ShardsLocked", "shards left to another ticker"),
        ("OutOfTime", "ticks that stopped before the end; what is left is still there"),
    ),
    *_named(
        Emitter.TICKER,
        ("tenant", "schedule"),
        ("Missed", "fires claimed more than a minute late"),
        ("Skipped", "missed fires that the schedule's `catch_up` passed over"),
    ),
    *_named(Emitter.TICKER, ("queue",), ("QueueHeld", "1 for each queue that is held back")),
    *_named(
        Emitter.TICKER,
        ("tenant", "backfill"),
        ("BackfillFires", "fires of a backfill that were created since its last line"),
        ("BackfillLeft", "fires of a backfill that are still to be created"),
    ),
    Metric(
        "EntryAge",
        Unit.MILLISECONDS,
        Kind.GAUGE,
        (Emitter.TICKER,),
        "of the oldest ready entry of a shard, once in five minutes, if it is due",
        names=("shard", "queue"),
    ),
    Metric(
        "StripeDepth",
        Unit.COUNT,
        Kind.GAUGE,
        (Emitter.TICKER,),
        "messages that wait in a stripe of a queue, once in five minutes",
        names=("queue", "stripe"),
    ),
    Metric(
        "ReadyRuns",
        Unit.COUNT,
        Kind.GAUGE,
        (Emitter.TICKER,),
        "messages that wait in all queues, once in five minutes",
        zeros=True,
    ),
    Metric(
        "ExpiredLeases",
        Unit.COUNT,
        Kind.GAUGE,
        (Emitter.TICKER,),
        "runs of a bounded sample whose lease has passed and that nobody has taken over, once in five minutes",
        zeros=True,
    ),
)
_WORKER = (
    Metric(
        "StartLag",
        Unit.MILLISECONDS,
        Kind.HISTOGRAM,
        (Emitter.WORKER,),
        "from due to start, of first attempts",
        by_job=True,
        zeros=True,
    ),
    Metric(
        "QueueWait",
        Unit.MILLISECONDS,
        Kind.HISTOGRAM,
        (Emitter.WORKER,),
        "from the time at which a message could be received first to the start of its attempt",
        zeros=True,
    ),
    Metric(
        "LowWait",
        Unit.MILLISECONDS,
        Kind.HISTOGRAM,
        (Emitter.WORKER,),
        "the same of attempts that came by a low lane",
    ),
    Metric(
        "RunDuration",
        Unit.MILLISECONDS,
        Kind.HISTOGRAM,
        (Emitter.WORKER,),
        "from the start of an attempt to its end",
        by_job=True,
        zeros=True,
    ),
    Metric(
        "AttemptsPerRun",
        Unit.COUNT,
        Kind.HISTOGRAM,
        (Emitter.WORKER,),
        "attempts of a run that has ended, in the end",
        by_job=True,
    ),
    *_counts(
        Emitter.WORKER,
        ("Started", "attempts that began"),
        ("FirstStarts", "of these, first attempts"),
        ("FirstStartsLate", "of these, begun more than 2 s after they were due"),
        ("AttemptsEnded", "attempts that ended, in whatever way"),
        ("AttemptsFailed", "of these, failed or timed out, whether they are repeated or not"),
        ("Succeeded", "runs that ended well"),
        ("Retried", "attempts that failed and are followed by another, and runs given back by a stopping worker"),
        ("Continued", "slices of long jobs that ended at a checkpoint"),
        ("Cancelled", "runs that ended because their cancellation was asked for"),
        ("Failed", "runs that this worker ended DEAD"),
        ("Shadowed", "runs of schedules with `shadow=True` that would have started"),
        by_job=True,
    ),
    *_counts(
        Emitter.WORKER,
        ("LeasesRescued", "attempts of runs whose last worker had let its lease pass"),
        (
            "StartedUncapped",
            "attempts that began without a slot of their concurrency cap, because slots could not be read or written",
        ),
        ("Redelivered", "messages that were received before"),
        (
            "Postponed",
            "messages sent again for a later time: not due yet, an unknown job, or its tenant or job is held",
        ),
        ("Kept", "messages that come back by themselves: a service did not answer, or it was not their turn"),
        (
            "LeaseRefused",
            "messages that led to no attempt, and attempts whose lease was lost; by reason as `LeaseRefused.<reason>`",
        ),
        ("JobsNotImported", "invocations whose jobs package could not be imported"),
    ),
    Metric(
        "SlotsInUse",
        Unit.COUNT,
        Kind.GAUGE,
        (Emitter.WORKER,),
        "messages at hand of a process",
        processes_only=True,
        zeros=True,
    ),
    Metric(
        "Slots",
        Unit.COUNT,
        Kind.GAUGE,
        (Emitter.WORKER,),
        "messages that a process may have at hand",
        processes_only=True,
        zeros=True,
    ),
    Metric(
        "ProcessCpu",
        Unit.PERCENT,
        Kind.GAUGE,
        (Emitter.WORKER,),
        "of one core, of a process",
        processes_only=True,
        zeros=True,
    ),
    Metric(
        "ProcessMemory",
        Unit.MEGABYTES,
        Kind.GAUGE,
        (Emitter.WORKER,),
        "resident, of a process",
        processes_only=True,
        zeros=True,
    ),
)
_UNDERTAKER = (
    *_counts(
        Emitter.UNDERTAKER,
        ("Dead", "dead runs recorded"),
        ("Expired", "runs recorded whose deadline passed before they could start"),
        (
            "Returned",
            "messages that SQS had moved here, or that a worker of another release could not read, sent back to work",
        ),
        by_job=True,
    ),
    *_counts(Emitter.UNDERTAKER, ("PausedOnFailure", "schedules paused because so many runs in a row failed for good")),
)
_SHARED = (
    Metric(
        "Lost",
        Unit.COUNT,
        Kind.COUNTER,
        (Emitter.TICKER, Emitter.WORKER),
        "at-most-once runs declared LOST",
        by_job=True,
    ),
    Metric(
        "Incidents", Unit.COUNT, Kind.COUNTER, (Emitter.TICKER, Emitter.UNDERTAKER), "incidents of schedules that began"
    ),
    Metric(
        "Unreadable",
        Unit.COUNT,
        Kind.COUNTER,
        (Emitter.WORKER, Emitter.UNDERTAKER),
        "messages that could not be read: damaged, or not ours",
    ),
    Metric(
        "Rejected",
        Unit.COUNT,
        Kind.COUNTER,
        (Emitter.WORKER, Emitter.UNDERTAKER),
        "messages behind which there is no run or no revision: somebody else may send to the queue, or rows were removed",
    ),
)
_AUDITOR = _counts(
    Emitter.AUDITOR,
    ("Audits", "audits"),
    ("Rearmed", "active schedules without a chain, armed again: should be 0"),
    ("Unclaimed", "fires of the last two hours without a run, claimed now: should be 0"),
    ("AuditResent", "runs of the last two hours that are long past their time, sent again"),
    ("Overdue", "runs of any age found long past their time, sent again; a week of audits reads the whole ledger"),
    ("QuarantinedEntries", "quarantined entries that need a human"),
    ("AuditFailed", "schedules that could not be audited"),
    (
        "PayloadsRemoved",
        "large payloads of runs that have left the ledger, and of schedules that do not need them any more",
    ),
    ("SchedulesRetired", "schedules deleted a retention ago, of which only the numbering is kept"),
    ("RevisionsRemoved", "their revisions"),
    ("ArchiveCompacted", "objects of the archive's inbox whose transitions were moved to objects of their tenants"),
    (
        "ArchiveUnreadable",
        "objects that stay in the inbox because they are damaged or have a line without tenant or time",
    ),
    ("ArchiveNotCompacted", "audits that could not compact the archive: the next one continues"),
    ("HistoryFolded", "hours of a tenant's history whose pages were folded into few"),
    ("HistoryNotFolded", "days of a tenant that could not be folded: the next audit does it"),
    ("HistoryRelisted", "ended runs of a sample of 100 that the history lacked: should be 0"),
    ("AuditDaysClosed", "days of tenants that were closed in the audit"),
    ("AuditDaysNotClosed", "days of tenants that could not be closed, for want of an answer"),
    (
        "AuditContradicted",
        "days of tenants that are not closed because an anchor contradicts the table: the record was changed",
    ),
    ("AuditStopped", "audits whose time was over before they were through; the next one begins where they stopped"),
)
_HISTORIAN = (
    *_counts(
        Emitter.HISTORIAN,
        ("HistorianBatches", "batches of the stream that the function was invoked with, or that a process delivered"),
        ("HistorianChanges", "changes of runs that were delivered to every consumer"),
        ("HistorianStopped", "batches, and rounds of a process, that failed as a whole and come again"),
        ("HistorianSetAside", "changes that a consumer could not handle: should be 0"),
        ("HistorianUnreadable", "changes of runs whose rows nobody can read: garbage, or a later release's"),
    ),
    Metric(
        "HistorianDelay",
        Unit.MILLISECONDS,
        Kind.HISTOGRAM,
        (Emitter.HISTORIAN,),
        "from the oldest change of a batch to its delivery",
        zeros=True,
    ),
)
_EVENTS = _counts(
    Emitter.EVENTS,
    ("EventBatches", "batches of ends of runs and of incidents"),
    ("EventChanges", "changes in them"),
    ("EventsSetAside", "events that were given up: the receiver refuses them or fails on them"),
    ("EventsStopped", "attempts at a batch, and rounds of a process, that failed; they are tried again for a day"),
)
METRICS: Mapping[str, Metric] = {
    metric.name: metric for metric in (*_TICKER, *_WORKER, *_UNDERTAKER, *_SHARED, *_AUDITOR, *_HISTORIAN, *_EVENTS)
}
