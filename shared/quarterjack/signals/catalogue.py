"""Every metric: its name, its unit, the roles that emit it, and what it says; and measurements of a metric by its name.

Alarms, the dashboard and the reference page are checked against this table, so that none of them names a metric that nobody emits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict, Unpack

from quarterjack.signals.measurement import Emitter, Kind, Measurement, Metric, Unit

# How a metric counts, and in which unit.
_COUNT = (Kind.COUNTER, Unit.COUNT)
_LEVEL = (Kind.GAUGE, Unit.COUNT)
_AGE = (Kind.GAUGE, Unit.MILLISECONDS)
_DURATION = (Kind.HISTOGRAM, Unit.MILLISECONDS)


class _More(TypedDict, total=False):
    names: tuple[str, ...]
    by_job: bool
    processes_only: bool
    zeros: bool


def _metrics(
    emitters: Emitter | tuple[Emitter, ...], measure: tuple[Kind, Unit], *rows: tuple[str, str], **more: Unpack[_More]
) -> tuple[Metric, ...]:
    """Metrics that differ in name and meaning only."""
    kind, unit = measure
    roles = emitters if isinstance(emitters, tuple) else (emitters,)
    return tuple(Metric(name, unit, kind, roles, meaning, **more) for name, meaning in rows)


_TICKER = (
    *_metrics(Emitter.TICKER, _COUNT, ("Ticks", "whole ticks, groups of shards left out"), zeros=True),
    *_metrics(
        Emitter.TICKER, _AGE, ("BehindBy", "from the oldest due entry to now: the health of the scheduler"), zeros=True
    ),
    *_metrics(
        Emitter.TICKER,
        _DURATION,
        (
            "SchedulingLag",
            "from a fire's time to the acceptance of its message; 0 if it was accepted ahead. At most 100 values a tick stand for all",
        ),
        zeros=True,
    ),
    *_metrics(
        Emitter.TICKER,
        _COUNT,
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
        ("WaitsChecked", "checks of parked runs, none of those that sleep; by kind as `WaitsChecked.<kind>`"),
        ("OutOfTime", "ticks that stopped before the end; what is left is still there"),
    ),
    *_metrics(
        Emitter.TICKER,
        _COUNT,
        ("Missed", "fires claimed more than a minute late"),
        ("Skipped", "missed fires that the schedule's `catch_up` passed over"),
        names=("tenant", "schedule"),
    ),
    *_metrics(Emitter.TICKER, _COUNT, ("QueueHeld", "1 for each queue that is held back"), names=("queue",)),
    *_metrics(
        Emitter.TICKER,
        _COUNT,
        ("BackfillFires", "fires of a backfill that were created since its last line"),
        ("BackfillLeft", "fires of a backfill that are still to be created"),
        names=("tenant", "backfill"),
    ),
    *_metrics(
        Emitter.TICKER,
        _AGE,
        ("EntryAge", "of the oldest ready entry of a shard, once in five minutes, if it is due"),
        names=("shard", "queue"),
    ),
    *_metrics(Emitter.TICKER, _AGE, ("LongestWait", "the longest time that a checked run is parked; by kind likewise")),
    *_metrics(
        Emitter.TICKER,
        _LEVEL,
        ("QueueDepth", "messages that wait in an SQS queue of a queue, once in five minutes"),
        names=("queue", "sqs"),
    ),
    *_metrics(
        Emitter.TICKER,
        _LEVEL,
        ("ReadyRuns", "messages that wait in all queues, once in five minutes"),
        ("ExpiredLeases", "runs of a sample whose lease has passed and that nobody took over, once in five minutes"),
        zeros=True,
    ),
)
_WORKER = (
    *_metrics(
        Emitter.WORKER,
        _DURATION,
        ("StartLag", "from due to start, of first attempts"),
        ("RunDuration", "from the start of an attempt to its end"),
        by_job=True,
        zeros=True,
    ),
    *_metrics(
        Emitter.WORKER,
        _DURATION,
        ("QueueWait", "from the time at which a message could be received first to the start of its attempt"),
        zeros=True,
    ),
    *_metrics(Emitter.WORKER, _DURATION, ("LowWait", "the same of attempts that came by a low lane")),
    *_metrics(
        Emitter.WORKER,
        (Kind.HISTOGRAM, Unit.COUNT),
        ("AttemptsPerRun", "attempts of a run, when it has ended"),
        by_job=True,
    ),
    *_metrics(
        Emitter.WORKER,
        _COUNT,
        ("Started", "attempts that began"),
        ("FirstStarts", "of these, first attempts"),
        ("FirstStartsLate", "of these, begun more than 2 s after they were due"),
        ("AttemptsEnded", "attempts that ended, with any outcome"),
        ("Succeeded", "runs that ended well"),
        ("Retried", "attempts that failed and are followed by another, and runs given back by a stopping worker"),
        ("Continued", "slices of long jobs that ended at a checkpoint"),
        ("Parked", "slices of jobs that ended in a wait; by its kind as `Parked.<kind>`"),
        ("Cancelled", "runs that ended because their cancellation was asked for"),
        ("Failed", "runs that this worker ended DEAD"),
        ("Shadowed", "runs of schedules with `shadow=True` that would have started"),
        by_job=True,
    ),
    *_metrics(
        Emitter.WORKER,
        _COUNT,
        ("AttemptsFailed", "of the attempts that ended, failed or timed out, whether they are repeated or not"),
        by_job=True,
        names=("version",),
    ),
    *_metrics(
        Emitter.WORKER,
        _COUNT,
        ("LeasesRescued", "attempts of runs whose last worker had let its lease pass"),
        (
            "StartedUncapped",
            "attempts that began without a permit of their concurrency cap, because permits could not be read or written",
        ),
        ("Redelivered", "messages that were received before"),
        (
            "Postponed",
            "messages sent again for a later time: not due yet, an unknown job, another version, or its tenant or job is held",
        ),
        ("VersionUnserved", "of these, whose run waits for an application version of which no worker is alive"),
        ("Kept", "messages that come back by themselves: a service did not answer, or it was not their turn"),
        (
            "LeaseRefused",
            "messages that led to no attempt, and attempts whose lease was lost; by reason as `LeaseRefused.<reason>`",
        ),
        ("JobsNotImported", "invocations whose jobs package could not be imported"),
    ),
    *_metrics(
        Emitter.WORKER,
        _LEVEL,
        ("SlotsInUse", "messages at hand of a process"),
        ("Slots", "messages that a process may have at hand"),
        processes_only=True,
        zeros=True,
    ),
    *_metrics(
        Emitter.WORKER,
        (Kind.GAUGE, Unit.PERCENT),
        ("ProcessCpu", "of one core, of a process"),
        processes_only=True,
        zeros=True,
    ),
    *_metrics(
        Emitter.WORKER,
        (Kind.GAUGE, Unit.MEGABYTES),
        ("ProcessMemory", "resident, of a process"),
        processes_only=True,
        zeros=True,
    ),
)
_UNDERTAKER = (
    *_metrics(
        Emitter.UNDERTAKER,
        _COUNT,
        ("Dead", "dead runs recorded"),
        ("Expired", "runs recorded whose deadline passed before they could start"),
        (
            "Returned",
            "messages that SQS had moved here, or that a worker of another release could not read, sent back to work",
        ),
        by_job=True,
    ),
    *_metrics(
        Emitter.UNDERTAKER,
        _COUNT,
        ("PausedOnFailure", "schedules paused because so many runs in a row failed for good"),
    ),
)
_SHARED = (
    *_metrics((Emitter.TICKER, Emitter.WORKER), _COUNT, ("Lost", "at-most-once runs declared LOST"), by_job=True),
    *_metrics((Emitter.TICKER, Emitter.UNDERTAKER), _COUNT, ("Incidents", "incidents that began, and overdue runs")),
    *_metrics(
        (Emitter.WORKER, Emitter.UNDERTAKER),
        _COUNT,
        ("Unreadable", "messages that could not be read: damaged, or not ours"),
        (
            "Rejected",
            "messages behind which there is no run or no revision: somebody else may send to the queue, or rows were removed",
        ),
    ),
)
_AUDITOR = _metrics(
    Emitter.AUDITOR,
    _COUNT,
    ("Audits", "audits"),
    ("Rearmed", "active schedules without a chain, armed again: should be 0"),
    ("Unclaimed", "fires of the last two hours without a run, claimed now: should be 0"),
    ("AuditResent", "runs of the last two hours that are long past their time, sent again"),
    ("Overdue", "runs of any age found long past their time, sent again; a week of audits reads the whole ledger"),
    ("QuarantinedEntries", "quarantined entries that need an operator"),
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
    ("HistoryFolded", "hours of a tenant's history whose pages were compacted"),
    ("HistoryNotFolded", "days of a tenant that could not be compacted: the next audit repeats it"),
    ("HistoryRelisted", "ended runs of a sample of 100 that the history lacked: should be 0"),
    ("AuditDaysClosed", "days of tenants that were closed in the audit"),
    ("AuditDaysNotClosed", "days of tenants that could not be closed, because a service did not answer"),
    (
        "AuditContradicted",
        "days of tenants that are not closed because an anchor contradicts the table: the record was changed",
    ),
    ("AuditStopped", "audits whose time was over before they were through; the next one begins where they stopped"),
)
_HISTORIAN = (
    *_metrics(
        Emitter.HISTORIAN,
        _COUNT,
        ("HistorianBatches", "batches of the stream that the function was invoked with, or that a process delivered"),
        ("HistorianChanges", "changes of runs that were delivered to every consumer"),
        ("HistorianStopped", "batches, and rounds of a process, that failed as a whole and come again"),
        ("HistorianSetAside", "changes that a consumer could not handle: should be 0"),
        ("HistorianUnreadable", "changes of runs with an unreadable row: damaged, or of a later release"),
    ),
    *_metrics(
        Emitter.HISTORIAN,
        _DURATION,
        ("HistorianDelay", "from the oldest change of a batch to its delivery"),
        zeros=True,
    ),
)
_EVENTS = _metrics(
    Emitter.EVENTS,
    _COUNT,
    ("EventBatches", "batches of ends of runs and of incidents"),
    ("EventChanges", "changes in them"),
    ("EventsSetAside", "events that were given up: the receiver refuses them or fails on them"),
    ("EventsStopped", "attempts at a batch, and rounds of a process, that failed; they are tried again for a day"),
)
METRICS: Mapping[str, Metric] = {
    metric.name: metric for metric in (*_TICKER, *_WORKER, *_UNDERTAKER, *_SHARED, *_AUDITOR, *_HISTORIAN, *_EVENTS)
}


def measured(name: str, *values: float, reason: str = "", **names: str) -> Measurement:
    """A measurement of the metric ``name``. Raises KeyError if the catalogue has none."""
    return Measurement(metric=METRICS[name], values=values, reason=reason, names=names)


def counted(**counts: float) -> list[Measurement]:
    """Measurements of counters and gauges by name; those of zero are left out, unless their metric is written although it is 0."""
    return [measured(name, value) for name, value in counts.items() if value or METRICS[name].zeros]
