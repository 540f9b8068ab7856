"""SDK methods about the whole installation: its workers, the jobs that they know, what they run now, and its queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from quarterjack.arguments import checked_limit
from quarterjack.domain.job import JobRef
from quarterjack.domain.names import check_flag
from quarterjack.domain.queue import DEFAULT_QUEUE, check_queue
from quarterjack.domain.run import RunRow
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.sdk.base import SchedulerBase
from quarterjack.sdk.cursors import Listing
from quarterjack.sdk.views import Page

if TYPE_CHECKING:
    from quarterjack.domain.job_catalogue import CatalogueEntry
    from quarterjack.sdk.history.worker_views import JobView, QueueView, RunningPage
    from quarterjack.state.worker_record import RunAtHand, WorkerRow


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
        self._permit_some(Verb.READ_INSTALLATION)
        if all_tenants:
            self._permit_all_tenants(Verb.READ_RUNS)
        self._require_records()
        wanted = check_queue(queue) if queue is not None else None
        name = self._named_job(job)
        flags = check_flag("stopped", stopped), check_flag("all_tenants", all_tenants)
        from quarterjack.owner import workers as reading  # noqa: PLC0415 (`import quarterjack` need not take its time)
        from quarterjack.sdk.history.worker_views import is_wanted, worker_view  # noqa: PLC0415 (as above)

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
        return self._visible(jobs, Verb.READ_INSTALLATION, str)

    def _may_see(self, run: RunAtHand, *, all_tenants: bool) -> bool:
        is_wanted = all_tenants or run.ref.tenant == self.tenant
        return is_wanted and self._may(Verb.READ_RUNS, run.job, run.ref.tenant)

    def jobs(self) -> Sequence[JobView]:
        """The jobs that workers know, by name: whose runs they are, which policies they have, and when a worker last said so.

        Each worker publishes its jobs when it starts and once an hour, a Lambda environment after its first batch. A job leaves the
        list 100 days after the last worker that knew it. Costs one query. Raises Unavailable, Misconfigured.
        """
        self._permit_some(Verb.READ_INSTALLATION)
        from quarterjack.owner.catalogue import read_catalogue  # noqa: PLC0415 (as above)
        from quarterjack.sdk.history.worker_views import job_views  # noqa: PLC0415 (as above)

        entries = read_catalogue(self.session.services, self.session.clock()).entries.values()
        return list(job_views(self._visible(entries, Verb.READ_INSTALLATION, _name_of)))

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
        self._permit_all_tenants(Verb.READ_RUNS) if of is None else self._permit(Verb.READ_RUNS)
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
        from quarterjack.sdk.history.worker_views import RunningPage  # noqa: PLC0415 (as above)

        now, most, after = self.session.clock(), checked_limit(limit), listing.position(cursor)
        found = running_runs(tenant, self.session.services, now, limit=most, after=after, wanted=wanted)
        items = [self._run_view(run, now=now) for run in self._visible_of_all(found.runs, Verb.READ_RUNS)]
        return RunningPage(items=items, cursor=listing.next(found.cursor), unlisted=found.unlisted)

    def _require_records(self) -> None:
        if not self._has_history:
            raise Misconfigured(
                "QUARTERJACK_HISTORY=off: workers keep no records of what they run; switch it on for workers and here"
            )

    def queues(self) -> Sequence[QueueView]:
        """The queues that exist, "default" first, with what waits in each stripe and whether the ticker holds them back.

        The numbers are SQS's own, which are approximate; so many seconds old as SQS takes to count them. ``oldest_age`` is that of
        the oldest due run that a few of the queue's schedules show. Costs a request for each stripe and a few reads.
        Raises Unavailable, Misconfigured.
        """
        self._permit_some(Verb.READ_INSTALLATION)
        from quarterjack.owner.queues import survey_queues  # noqa: PLC0415 (as above)
        from quarterjack.sdk.history.worker_views import queue_view  # noqa: PLC0415 (as above)

        return [queue_view(found) for found in survey_queues(self.session.services, self.session.clock())]


def _name_of(entry: CatalogueEntry) -> str:
    return entry.job.name
