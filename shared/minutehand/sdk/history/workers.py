"""SDK methods about the whole installation: its workers, what they run now, and its queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from minutehand.arguments import checked_limit
from minutehand.domain.names import check_flag, check_name
from minutehand.domain.queue import DEFAULT_QUEUE, check_queue
from minutehand.domain.run import RunRow
from minutehand.domain.times import from_ms
from minutehand.errors import InvalidInput, Misconfigured
from minutehand.owner import workers as reading
from minutehand.owner.queues import FoundQueue, survey_queues
from minutehand.sdk.base import SchedulerBase
from minutehand.sdk.cursors import Listing
from minutehand.sdk.views import Page, run_view, view_of
from minutehand.state.backpressure import QueueDepth
from minutehand.state.worker_record import RunAtHand, WorkerKind, WorkerRow, WorkerState


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
    version: str  # of minutehand
    jobs_version: str | None  # of the package of its jobs, if that has one
    queues: Mapping[str, int]  # that it receives from, with the number of stripes of each
    concurrency: int | None  # runs at the same time; None: as many as Lambda gives it
    jobs: Sequence[str]  # names of the jobs that it knows, as far as they are listed
    more_jobs: int = 0  # number of those that are not
    runs: Sequence[WorkerRun] = ()  # the tenant's runs at hand, as far as they are listed, the oldest first
    unlisted: int = 0  # number of runs at hand, of any tenant, that are not
    invocation: str | None = None  # of an environment: its last invocation, as in ``Run.worker``
    started_at: datetime  # UTC
    last_seen_at: datetime  # UTC
    stopped_at: datetime | None = None  # UTC: when it left in order


@dataclass(frozen=True, kw_only=True)
class RunningPage(Page):
    """Runs that are RUNNING; ``unlisted`` is the number of runs at hand, of any tenant, that no worker's record lists."""

    unlisted: int = 0


@dataclass(frozen=True, kw_only=True)
class QueueStripe:
    """One of the SQS queues of a queue, with approximate numbers of messages; None: SQS did not answer."""

    number: int  # 0, 1, 2 …
    waiting: int | None  # for a worker
    in_flight: int | None  # at a worker, or hidden until a retry or another look
    delayed: int | None  # sent ahead of their time


@dataclass(frozen=True, kw_only=True)
class QueueView:
    """A queue that exists, with the sums of its stripes; None: a stripe did not answer."""

    name: str  # "default", or of a declared queue
    waiting: int | None  # messages for a worker
    in_flight: int | None  # at a worker, or hidden until a retry or another look
    delayed: int | None  # sent ahead of their time
    oldest_age: timedelta | None  # for which a due run has waited, at least; zero: none waits; None: unknown
    held: bool | None  # whether the ticker holds it back now; None: unknown
    held_since: datetime | None = None  # UTC
    held_why: str | None = None  # "depth" or "age"
    stripes: Sequence[QueueStripe] = ()  # in their order

    @property
    def depth(self) -> int | None:
        """Messages that wait or are in flight."""
        return None if self.waiting is None or self.in_flight is None else self.waiting + self.in_flight


class InstallationMethods(SchedulerBase):
    def workers(
        self,
        *,
        queue: str | None = None,
        job: str | None = None,
        stopped: bool = False,
        all_tenants: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        """The worker processes and Lambda environments of the installation (``Worker``), which all tenants share.

        Each says every 20 s what it does, a Lambda environment while it has messages. One that vanished is shown for a day;
        those that left in order only with ``stopped``. ``queue`` and ``job`` (also: it may know it) filter them. ``runs`` are this
        tenant's, or with ``all_tenants`` everybody's. Raises InvalidInput, Unavailable, Misconfigured (the history is switched off,
        or a role of one tenant may not read it).
        """
        self._require_records()
        wanted = check_queue(queue) if queue is not None else None
        name = check_name(job, "job") if job is not None else None
        flags = check_flag("stopped", stopped), check_flag("all_tenants", all_tenants)
        listing, most, now = Listing("workers", self.tenant, wanted, name, *flags), checked_limit(limit), self._clock()
        found, more = list[WorkerRow](), None
        for row in reading.read_workers(self._services, now, after=listing.position(cursor)):
            if not _is_wanted(row, wanted, name, stopped=stopped):
                continue
            if len(found) == most:
                more = reading.position_of(found[-1])
                break
            found.append(row)
        if wanted is not None and not found and cursor is None:
            self._check_queue(wanted)
        states = reading.with_states(found, self._services, now)
        views = [self._worker(row, state, all_tenants) for row, state in zip(found, states, strict=True)]
        return Page(items=sorted(views, key=lambda view: view.name), cursor=listing.next(more))

    def _check_queue(self, name: str) -> None:
        """Raises InvalidInput if there is no such queue, as far as this role may know."""
        try:
            there = {DEFAULT_QUEUE, *self._services.work.names()}
        except Misconfigured:
            return
        if name not in there:
            raise InvalidInput("queue", name, "is not a queue of this installation", "queues() lists them")

    def _worker(self, row: WorkerRow, state: WorkerState, all_tenants: bool) -> Worker:  # noqa: FBT001
        identity = row.identity
        return view_of(
            Worker,
            identity,
            state=state,
            jobs=identity.jobs.names,
            more_jobs=identity.jobs.count - len(identity.jobs.names),
            runs=[_run(run) for run in row.runs if all_tenants or run.ref.tenant == self.tenant],
            unlisted=row.at_hand - len(row.runs),
            invocation=row.invocation,
            last_seen_at=from_ms(row.seen_at),
            stopped_at=None if row.stopped_at is None else from_ms(row.stopped_at),
        )

    def list_running(self, *, all_tenants: bool = False, limit: int = 100, cursor: str | None = None) -> RunningPage:
        """The runs that are RUNNING now, of this tenant or of ``all_tenants``, the one that began last first.

        From the workers' records, each looked up in the ledger: a run that began within the last 20 s may be missing. A page may
        have fewer runs than ``limit`` although others follow. Raises InvalidInput, Unavailable, Misconfigured (the history is
        switched off, or a role of one tenant may not read it).
        """
        of = None if check_flag("all_tenants", all_tenants) else self.tenant
        return self._running(Listing("list_running", of), of, limit, cursor)

    def _running(
        self,
        listing: Listing,
        tenant: str | None,
        limit: int,
        cursor: str | None,
        wanted: Callable[[RunRow], bool] = lambda run: True,
    ) -> RunningPage:
        self._require_records()
        now, most, after = self._clock(), checked_limit(limit), listing.position(cursor)
        found = reading.running_runs(tenant, self._services, now, limit=most, after=after, wanted=wanted)
        items = [run_view(run, now=now) for run in found.runs]
        return RunningPage(items=items, cursor=listing.next(found.cursor), unlisted=found.unlisted)

    def _require_records(self) -> None:
        if not self._has_history:
            raise Misconfigured(
                "MINUTEHAND_HISTORY=off: workers keep no records of what they run; switch it on for workers and here"
            )

    def queues(self) -> Sequence[QueueView]:
        """The queues that exist, "default" first, with what waits in each stripe and whether the ticker holds them back.

        The numbers are SQS's own, which are approximate; so many seconds old as SQS takes to count them. ``oldest_age`` is that of
        the oldest due run that a few of the queue's schedules show. Costs a request for each stripe and a few reads.
        Raises Unavailable, Misconfigured.
        """
        return [_queue(found) for found in survey_queues(self._services, self._clock())]


def _is_wanted(row: WorkerRow, queue: str | None, job: str | None, *, stopped: bool) -> bool:
    if row.stopped_at is not None and not stopped:
        return False
    if queue is not None and queue not in row.identity.queues:
        return False
    return job is None or row.identity.jobs.knows(job) is not False


def _run(run: RunAtHand) -> WorkerRun:
    return view_of(WorkerRun, run, id=str(run.ref))


def _queue(found: FoundQueue) -> QueueView:
    holds = found.holds
    now = None if holds is None else holds.now
    stripes = [_stripe(number, depth) for number, depth in enumerate(found.stripes)]
    return QueueView(
        name=found.name or DEFAULT_QUEUE,
        waiting=_sum([stripe.waiting for stripe in stripes]),
        in_flight=_sum([stripe.in_flight for stripe in stripes]),
        delayed=_sum([stripe.delayed for stripe in stripes]),
        oldest_age=None if found.oldest is None else timedelta(milliseconds=found.oldest),
        held=None if holds is None else now is not None,
        held_since=None if now is None else from_ms(now.since),
        held_why=None if holds is None or now is None else holds.why,
        stripes=stripes,
    )


def _stripe(number: int, depth: QueueDepth | None) -> QueueStripe:
    if depth is None:
        return QueueStripe(number=number, waiting=None, in_flight=None, delayed=None)
    return QueueStripe(number=number, waiting=depth.waiting, in_flight=depth.at_hand, delayed=depth.delayed)


def _sum(counts: Sequence[int | None]) -> int | None:
    """None if one is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
