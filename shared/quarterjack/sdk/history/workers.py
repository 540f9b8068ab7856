"""SDK methods about the whole installation: its workers, the jobs that they know, what they run now, and its queues."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from quarterjack.arguments import checked_limit, checked_rate
from quarterjack.concurrency.rate_limits import StopSignal
from quarterjack.domain.job import JobRef
from quarterjack.domain.names import check_flag
from quarterjack.domain.queue import DEFAULT_QUEUE, check_queue
from quarterjack.domain.run import RunRow
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.times import to_ms
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.owner.ticker_health import TickerState, survey_ticks
from quarterjack.sdk.base import SchedulerBase
from quarterjack.sdk.cursors import Listing
from quarterjack.sdk.views import Page

if TYPE_CHECKING:
    from quarterjack.domain.job_catalogue import CatalogueEntry
    from quarterjack.owner.runs.resend import ResendReport
    from quarterjack.sdk.history.views import JobView, QueueView, RunningPage
    from quarterjack.state.worker_record import RunAtHand, WorkerRow


_MOST = 100_000_000  # messages of one resend
_READ = 20  # entries of each shard that ``ticker`` reads


@dataclass(frozen=True, kw_only=True)
class TickerStatus:
    """Whether the ticker of the installation keeps up, as its agenda shows it."""

    state: TickerState  # ON_TIME (nothing is late), SILENT (no tick for 150 s, nothing is late yet) or LATE (by 120 s at least)
    behind: timedelta  # since the oldest fire was due that no tick has handled; zero: none is late
    silent: timedelta  # for which a part of the agenda has seen no tick, at least; zero: nothing tells of that
    late: int  # fires that are due and not handled, as far as they were read
    failing: int  # entries whose handling failed, and is tried again, likewise


@dataclass(frozen=True, kw_only=True)
class Resent:
    """Result of ``resend``, and its progress."""

    sent: Mapping[str, int]  # messages that were sent, or would be (dry run), by queue
    refused: Mapping[str, int]  # messages that their queue did not accept: their runs still wait; call again
    queued: int  # runs that wait for a permit of a concurrency cap: the ticker sends for them
    unread: int  # runs that could not be read: call again
    dry_run: bool  # True: nothing was written or sent
    cursor: str | None  # pass it to go on, also after an error; None: the whole ledger was read

    @property
    def count(self) -> int:
        """Number of messages that were sent, or would be."""
        return sum(self.sent.values())


class InstallationMethods(SchedulerBase):
    def workers(
        self,
        *,
        queue: str | None = None,
        job: JobRef | None = None,
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
        self._access.check_some(Verb.READ_INSTALLATION)
        if all_tenants:
            self._access.check_all_tenants(Verb.READ_RUNS)
        self._require_records()
        wanted = check_queue(queue) if queue is not None else None
        name = self._checks.named_job(job)
        flags = check_flag("stopped", stopped), check_flag("all_tenants", all_tenants)
        from quarterjack.owner import workers as reading  # noqa: PLC0415 (`import quarterjack` need not take its time)
        from quarterjack.sdk.history.views import is_wanted, worker_view  # noqa: PLC0415 (as above)

        listing, most, now = (
            Listing("workers", self.tenant, wanted, name, *flags),
            checked_limit(limit),
            self.session.clock(),
        )
        found, more = list["WorkerRow"](), None
        for row in reading.read_workers(self.session.services, now, after=listing.position(cursor)):
            if not is_wanted(row, wanted, name, stopped=stopped):
                continue
            if len(found) == most:
                more = reading.position_of(found[-1])
                break
            found.append(row)
        if wanted is not None and not found and cursor is None:
            self._check_queue(wanted)
        shown = [[run for run in row.runs if self._may_see(run, all_tenants=all_tenants)] for row in found]
        states = reading.with_states(found, self.session.services, now)
        views = [
            worker_view(row, state, runs, self._named(row.identity.jobs.names), self._named(row.unknown.names))
            for row, state, runs in zip(found, states, shown, strict=True)
        ]
        return Page(items=sorted(views, key=lambda view: view.name), cursor=listing.next(more))

    def _named(self, jobs: Sequence[str]) -> Sequence[str]:
        """The names that this caller may see."""
        return self._access.visible(jobs, Verb.READ_INSTALLATION, str)

    def _may_see(self, run: RunAtHand, *, all_tenants: bool) -> bool:
        is_wanted = all_tenants or run.ref.tenant == self.tenant
        return is_wanted and self._access.may(Verb.READ_RUNS, run.job, run.ref.tenant)

    def jobs(self) -> Sequence[JobView]:
        """The jobs that workers know, by name: whose runs they are, which policies they have, and when a worker last said so.

        Each worker publishes its jobs when it starts and once an hour, a Lambda environment after its first batch. A job leaves the
        list 100 days after the last worker that knew it. Costs one query. Raises Unavailable, Misconfigured.
        """
        self._access.check_some(Verb.READ_INSTALLATION)
        from quarterjack.owner.catalogue import read_catalogue  # noqa: PLC0415 (as above)
        from quarterjack.sdk.history.views import job_views  # noqa: PLC0415 (as above)

        entries = read_catalogue(self.session.services, self.session.clock()).entries.values()
        return list(job_views(self._access.visible(entries, Verb.READ_INSTALLATION, _name_of)))

    def _check_queue(self, name: str) -> None:
        """Raises InvalidInput if there is no such queue, as far as this role may know."""
        try:
            there = {DEFAULT_QUEUE, *self.session.services.work.names()}
        except Misconfigured:
            return
        if name not in there:
            raise InvalidInput("queue", name, "is not a queue of this installation", "queues() lists them")

    def list_running(self, *, all_tenants: bool = False, limit: int = 100, cursor: str | None = None) -> RunningPage:
        """The runs that are RUNNING now, of this tenant or of ``all_tenants``, the one that began last first.

        From the workers' records, each looked up in the ledger: a run that began within the last 8 s may be missing. A page may
        have fewer runs than ``limit`` although others follow. Raises InvalidInput, Unavailable, Misconfigured (the history is
        switched off, or a role of one tenant may not read it).
        """
        of = None if check_flag("all_tenants", all_tenants) else self.tenant
        self._access.check_all_tenants(Verb.READ_RUNS) if of is None else self._access.check(Verb.READ_RUNS)
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
        from quarterjack.owner.workers import running_runs  # noqa: PLC0415 (as above)
        from quarterjack.sdk.history.views import RunningPage  # noqa: PLC0415 (as above)

        now, most, after = self.session.clock(), checked_limit(limit), listing.position(cursor)
        found = running_runs(tenant, self.session.services, now, limit=most, after=after, wanted=wanted)
        items = [self._access.run_view(run, now=now) for run in self._access.visible_of_all(found.runs, Verb.READ_RUNS)]
        return RunningPage(items=items, cursor=listing.next(found.cursor), unlisted=found.unlisted)

    def _require_records(self) -> None:
        if not self._has_history:
            raise Misconfigured(
                "QUARTERJACK_HISTORY=off: workers keep no records of what they run; switch it on for workers and here"
            )

    def ticker(self) -> TickerStatus:
        """Whether the ticker of the installation, which all tenants share, runs and keeps up.

        A ticker that has nothing to do leaves no trace, and counts as on time. Costs a query for each shard of the agenda.
        Raises Unavailable, Misconfigured (a role of one tenant may not read the agenda).
        """
        self._access.check_some(Verb.READ_INSTALLATION)
        found = survey_ticks(
            self.session.services,
            self.session.clock(),
            shards=self.session.services.agenda.layout().shards,
            limit=_READ,
        )
        return TickerStatus(
            state=found.state,
            behind=timedelta(milliseconds=found.behind),
            silent=timedelta(milliseconds=found.silent),
            late=sum(entry.due <= found.now for entry in found.waiting),
            failing=len(found.failing),
        )

    def queues(self) -> Sequence[QueueView]:
        """The queues that exist, "default" first, with what waits in each of their SQS queues and whether the ticker holds them back.

        The numbers are SQS's own, which are approximate; so many seconds old as SQS takes to count them. ``oldest_age`` is that of
        the oldest due run that a few of the queue's schedules show. Costs a request for each SQS queue and a few reads.
        Raises Unavailable, Misconfigured.
        """
        self._access.check_some(Verb.READ_INSTALLATION)
        from quarterjack.owner.workers import survey_queues  # noqa: PLC0415 (as above)
        from quarterjack.sdk.history.views import queue_view  # noqa: PLC0415 (as above)

        return [queue_view(found) for found in survey_queues(self.session.services, self.session.clock())]

    def resend(
        self,
        *,
        all_tenants: bool = False,
        queue: str | None = None,
        job: JobRef | None = None,
        due_before: datetime | None = None,
        dry_run: bool = False,
        rate: float = 50.0,
        limit: int | None = None,
        cursor: str | None = None,
        stop: StopSignal | None = None,
        on_progress: Callable[[Resent], object] | None = None,
    ) -> Resent:
        """Send the runs again that should have a message in a work queue: after a queue was purged, deleted or made anew.

        These are the runs of this tenant, or with ``all_tenants`` of every tenant, that wait for a worker, are due within 15 minutes,
        wait for a retry or are running. A running one is not started again unless its worker vanishes. ``queue`` (``"default"`` is the
        default one), ``job`` and ``due_before`` (aware) filter them. No run starts twice by it: the lease decides, so a
        message that was not lost after all finds its run started and goes. Runs that are due later wait in the agenda, not in a queue.

        It reads the whole ledger a page at a time (half a read unit for each 4 KB), so its role needs ``dynamodb:Scan`` on the table of
        runs, and ``sqs:SendMessage`` on the queues. At most ``rate`` messages a second and ``limit`` in all; ``stop`` (a
        ``threading.Event``) ends it early. Then, or after an error, ``cursor`` goes on; ``on_progress`` is told it after each
        batch. A ``dry_run`` counts, and writes nothing; else the audit has an entry of the call.
        Raises InvalidInput, Forbidden, Misconfigured (the default queue does not exist, or refuses the caller or its key), Unavailable.
        """
        self._access.check(Verb.RESEND)
        name, every = self._checks.named_job(job), check_flag("all_tenants", all_tenants)
        wanted_queue = None if queue is None else check_queue(queue)
        before = None if due_before is None else to_ms(due_before, "due_before")
        per_second, only_counts = checked_rate(rate, "runs"), check_flag("dry_run", dry_run)
        most = None if limit is None else checked_limit(limit, most=_MOST)
        listing = Listing("resend", None if every else self.tenant, wanted_queue, name, before)
        from quarterjack.owner.runs.resend import (  # noqa: PLC0415 (`import quarterjack` need not take its time)
            ResendFilter,
            Resending,
            ResendPosition,
            resend,
        )

        position = ResendPosition.decode(listing.position(cursor))
        if wanted_queue is not None:
            self._check_queue(wanted_queue)

        def told(report: ResendReport) -> Resent:
            at = None if report.position is None else report.position.encode()
            return Resent(
                sent=dict(report.sent),
                refused=dict(report.refused),
                queued=report.queued,
                unread=report.unread,
                dry_run=only_counts,
                cursor=listing.next(at),
            )

        how = Resending(
            context=self._context,
            rate=per_second,
            dry_run=only_counts,
            stop=threading.Event() if stop is None else stop,
            limit=most,
            on_progress=(lambda report: None) if on_progress is None else lambda report: on_progress(told(report)),
        )
        wanted = ResendFilter(tenant=None if every else self.tenant, job=name, due_before=before, queue=wanted_queue)
        return told(resend(wanted, how, position))


def _name_of(entry: CatalogueEntry) -> str:
    return entry.job.name
