"""Return values of the SDK about workers, jobs and queues, and about the log lines of a run, masked as the errors of its job are."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from quarterjack.domain.job_catalogue import CatalogueEntry
from quarterjack.domain.message import GARBAGE
from quarterjack.domain.policies import Delivery, Isolation, Priority, Retry, Start, parse_policies
from quarterjack.domain.policies.flow import Flow
from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.domain.redaction import MASK, Redact
from quarterjack.domain.times import from_ms
from quarterjack.errors import QuarterjackError
from quarterjack.owner.workers import FoundQueue
from quarterjack.ports.queues import WorkDepth
from quarterjack.ports.run_logs import LogLineRow
from quarterjack.sdk.views import Page, view_of
from quarterjack.state.worker_record import RunAtHand, WorkerKind, WorkerRow, WorkerState

log = logging.getLogger(__name__)
_SAID = frozenset({"time", "timestamp", "level", "logger", "event", "message", "traceback", "exception", "run_id"})
_ALWAYS = frozenset(
    {"tenant", "job", "location", "service", "cold_start", "sampling_rate", "xray_trace_id", "exception_name"}
    | {"function_name", "function_memory_size", "function_arn", "function_request_id", "stack_trace"}
)
_DEEPEST = 20  # levels of data in a field


@dataclass(frozen=True, kw_only=True)
class WorkerRun:
    """A run that a worker has at hand, as of its last record."""

    id: str  # pass it to get_run
    job: str  # name of its job
    started_at: datetime  # UTC: when its lease was taken
    progress: float | None = None  # 0 to 1
    stage: str | None = None  # that its job reported

    def __str__(self) -> str:
        return self.id


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A worker process, or an execution environment of a worker function, as of its last record."""

    name: str  # of a process, as in ``Run.worker``; of an environment, its log stream
    kind: WorkerKind  # "process" or "function"
    state: WorkerState  # BUSY, IDLE, STOPPED (it left in order) or VANISHED (it has said nothing for a minute)
    host: str  # host name, or name of the function
    version: str  # of quarterjack
    app_version: str | None  # of the package of its jobs, if that has one
    queue: str  # that it receives from
    concurrency: int | None  # runs at the same time; None: as many as Lambda gives it
    jobs: Sequence[str]  # names of the jobs that it knows, as far as they are listed
    more_jobs: int = 0  # number of those that are not
    runs: Sequence[WorkerRun] = ()  # the tenant's runs at hand, as far as they are listed, the oldest first
    unlisted: int = 0  # number of runs at hand, of any tenant, that are not
    given_back: int = (
        0  # messages since it started, because it does not know their jobs; each waits 30 s for another worker
    )
    given_back_at: datetime | None = None  # UTC: the last of them; it is in the record up to 20 s later
    unknown_jobs: Sequence[str] = ()  # names of the jobs of the last of them, the newest last, at most five
    invocation: str | None = None  # of an environment: its last invocation, as in ``Run.worker``
    started_at: datetime  # UTC
    last_seen_at: datetime  # UTC
    stopped_at: datetime | None = None  # UTC: when it left in order


@dataclass(frozen=True, kw_only=True)
class RunningPage(Page):
    """Runs that are RUNNING; ``unlisted`` is the number of runs at hand, of any tenant, that no worker's record lists."""

    unlisted: int = 0


@dataclass(frozen=True, kw_only=True)
class SqsQueueView:
    """One of the SQS queues of a queue, with approximate numbers of messages; None: SQS did not answer."""

    number: int  # 0, 1, 2 …
    priority: Priority = Priority.NORMAL  # whose lane it belongs to: "high", "normal" or "low"
    waiting: int | None  # for a worker
    in_flight: int | None  # at a worker, or hidden until a retry or another look
    delayed: int | None  # sent ahead of their time


@dataclass(frozen=True, kw_only=True)
class QueueView:
    """A queue that exists, with the sums of its SQS queues; None: one did not answer."""

    name: str  # "default", or of a declared queue
    waiting: int | None  # messages for a worker
    in_flight: int | None  # at a worker, or hidden until a retry or another look
    delayed: int | None  # sent ahead of their time
    oldest_age: timedelta | None  # for which a due run has waited, at least; zero: none waits; None: unknown
    held: bool | None  # whether the ticker holds it back now; None: unknown
    held_since: datetime | None = None  # UTC
    held_why: str | None = None  # "depth" or "age"
    sqs_queues: Sequence[SqsQueueView] = ()  # in their order

    @property
    def depth(self) -> int | None:
        """Messages that wait or are in flight."""
        return None if self.waiting is None or self.in_flight is None else self.waiting + self.in_flight


@dataclass(frozen=True, kw_only=True)
class JobView:
    """A job that workers know, as those that came last publish it."""

    name: str  # that schedules and submissions give
    queue: str  # of its runs: "default", or a declared queue
    delivery: Delivery  # "at_least_once", "exactly_once" or "at_most_once"
    start: Start  # "prompt" or "exact"
    priority: Priority  # "high", "normal" or "low"
    retry: Retry
    timeout: float | None  # seconds of one attempt
    deadline: float | None  # seconds after the due time; after them no attempt starts
    flow: Flow | None = None  # limits by key
    cancel_grace: float  # seconds that a cancelled job has to end
    isolation: Isolation  # "thread" or "process"
    payload_schema: Mapping[str, Any] | None = None  # JSON Schema of its payload: by hand, else of its type
    by_name: bool = False  # no pattern in a tenant's profile allows it, only its name: a command, an open HTTP job
    version: str | None = None  # of the package of these workers' jobs, if that has one
    last_seen_at: datetime  # UTC: when a worker last said that it knows it; up to two hours old while one lives

    def __str__(self) -> str:
        return self.name


def job_views(entries: Iterable[CatalogueEntry]) -> Iterator[JobView]:
    """Without jobs whose policies this release cannot read, which are logged: a worker of a later one may have published them."""
    for entry in entries:
        try:
            yield job_view(entry)
        except (QuarterjackError, *GARBAGE) as problem:
            log.error("jobs.job_unreadable", extra={"job": entry.job.name, "error": str(problem)})


def job_view(entry: CatalogueEntry) -> JobView:
    job = entry.job
    return view_of(
        JobView,
        parse_policies(job.policies),
        name=job.name,
        queue=job.queue or DEFAULT_QUEUE,
        payload_schema=job.shown_schema,
        by_name=job.by_name,
        version=entry.version,
        last_seen_at=from_ms(entry.seen_at),
    )


def is_wanted(row: WorkerRow, queue: str | None, job: str | None, *, stopped: bool) -> bool:
    if row.stopped_at is not None and not stopped:
        return False
    if queue is not None and queue != row.identity.queue:
        return False
    return job is None or row.identity.jobs.knows(job) is not False


def worker_view(
    row: WorkerRow, state: WorkerState, runs: Iterable[RunAtHand], jobs: Sequence[str], unknown: Sequence[str]
) -> Worker:
    """A worker as a caller sees it, with those of its runs and its known and unknown jobs that the caller may see."""
    identity, last = row.identity, row.unknown.last_at
    return view_of(
        Worker,
        identity,
        state=state,
        jobs=tuple(jobs),
        more_jobs=identity.jobs.count - len(identity.jobs.names),
        runs=[_run(run) for run in runs],
        unlisted=row.at_hand - len(row.runs),
        given_back=row.unknown.count,
        given_back_at=from_ms(last) if last else None,
        unknown_jobs=tuple(unknown),
        invocation=row.invocation,
        last_seen_at=from_ms(row.seen_at),
        stopped_at=None if row.stopped_at is None else from_ms(row.stopped_at),
    )


def _run(run: RunAtHand) -> WorkerRun:
    return view_of(WorkerRun, run, id=str(run.ref))


def queue_view(found: FoundQueue) -> QueueView:
    holds = found.holds
    now = None if holds is None else holds.now
    sqs_queues = [_sqs_queue(each) for each in found.sqs_queues]
    return QueueView(
        name=found.name or DEFAULT_QUEUE,
        waiting=_sum([each.waiting for each in sqs_queues]),
        in_flight=_sum([each.in_flight for each in sqs_queues]),
        delayed=_sum([each.delayed for each in sqs_queues]),
        oldest_age=None if found.oldest is None else timedelta(milliseconds=found.oldest),
        held=None if holds is None else now is not None,
        held_since=None if now is None else from_ms(now.since),
        held_why=None if holds is None or now is None else holds.why,
        sqs_queues=sqs_queues,
    )


def _sqs_queue(counted: WorkDepth) -> SqsQueueView:
    depth = counted.depth
    return SqsQueueView(
        number=counted.number,
        priority=counted.priority,
        waiting=None if depth is None else depth.waiting,
        in_flight=None if depth is None else depth.at_hand,
        delayed=None if depth is None else depth.delayed,
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    """None if one is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


# Of a line: what other fields of ``LogLine`` say, and what a function's logger writes on every line.


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One log line about a run: of its job, or of the processes that had it."""

    at: datetime  # UTC
    source: str  # the process that wrote it, or the function without the installation's prefix
    level: str | None  # "INFO", "WARNING" …
    logger: str | None  # name of the logger
    event: str  # the message; of Quarterjack's own lines a stable name: "run.started", "run.ended"
    fields: Mapping[str, Any] = field(default_factory=dict)  # its further fields
    traceback: str | None = None


@dataclass(frozen=True, kw_only=True)
class LogPage(Page):
    """Log lines of a run in order of time; all earlier than ``searched_to`` were looked at."""

    sources: Sequence[str] = ()  # names of the logs that there are
    missing: str | None = None  # why lines may be missing, and what to do; None: nothing is known to be missing


def line_view(row: LogLineRow, redact: Redact, payload: str | None) -> LogLine:
    """A line as callers get it. Secrets were masked when it was written; here what errors must not repeat is masked, too.

    ``payload`` is JSON text: its values under sensitive names are masked.
    """

    def text(name: str) -> str | None:
        value = row.fields.get(name)
        return None if value is None else redact.text(str(value), payload)

    rest = {name: value for name, value in row.fields.items() if name not in _SAID and name not in _ALWAYS}
    return LogLine(
        at=from_ms(row.at),
        source=row.source,
        level=text("level"),
        logger=text("logger"),
        event=text("event") or text("message") or "",
        fields=_masked(rest, redact, payload, 0),
        traceback=text("traceback") or text("exception"),
    )


def _masked(value: Any, redact: Redact, payload: str | None, depth: int) -> Any:
    if isinstance(value, str):
        return redact.text(value, payload)
    if isinstance(value, (dict, list)) and depth >= _DEEPEST:
        return redact.text(str(value), payload)
    if isinstance(value, dict):
        return {
            name: MASK if redact.hides(name) and inner is not None else _masked(inner, redact, payload, depth + 1)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_masked(inner, redact, payload, depth + 1) for inner in value]
    return value
