"""The SDK's method about the log lines of a run."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from quarterjack.arguments import checked_limit
from quarterjack.domain.redaction import USUAL
from quarterjack.domain.run import TERMINAL, RunRow
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.times import MINUTE, from_ms
from quarterjack.errors import Unreadable
from quarterjack.fires.context import find_revision
from quarterjack.sdk.base import SchedulerBase
from quarterjack.sdk.cursors import Listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quarterjack.domain.schedule import Revision
    from quarterjack.ports.run_logs import RunLogsPage
    from quarterjack.sdk.history.log_views import LogPage

_EARLIER = 15 * MINUTE  # ms: runs are claimed early
_LATER = MINUTE  # ms: clocks differ, and the undertaker logs after the end
_SOON = timedelta(minutes=2)  # in which lines come into CloudWatch Logs


class LogMethods(SchedulerBase):
    def run_logs(self, run_id: str, *, limit: int = 100, cursor: str | None = None) -> LogPage:
        """The log lines of a run, oldest first: those of its job's loggers, and Quarterjack's own about it (``LogLine``).

        They come from CloudWatch Logs, from the folder that QUARTERJACK_LOGS names, or from the harness. A page ends after ``limit``
        lines, a megabyte or some requests, so it may hold few lines, or none: ``cursor`` goes on. ``missing`` says why lines may be
        missing: lines come into CloudWatch some seconds late, and leave it after its retention; the lines of worker processes are there
        only if QUARTERJACK_LOG_GROUPS names their group. What a job prints has no run id, and is no line of it. Long texts are cut.
        Values of secrets were masked when a line was written; here also what errors of the job must not repeat.

        Raises InvalidInput, NotFound, Misconfigured (logs that this role may not read), Unavailable.
        """
        run = self._read(run_id, Verb.READ_LOGS)
        listing, most = Listing("run_logs", str(run.ref)), checked_limit(limit)
        position = listing.position(cursor)
        from quarterjack.ports.run_logs import RunLogsQuery  # noqa: PLC0415 (`import quarterjack` need not take its time)
        from quarterjack.sdk.history.log_views import LogPage, line_view  # noqa: PLC0415 (as above)

        revision = self._revision_of(run)
        page = self.session.services.logs.read(
            RunLogsQuery(
                run_id=str(run.ref),
                begin=min(run.due, run.started_at or run.due) - _EARLIER,
                end=self._end_of(run) + _LATER,
                queues=self._queues_of(run, revision),
                limit=most,
                position=position,
            )
        )
        known = self._jobs.get(run.job)
        redact = USUAL if known is None else known.policies.redact
        payload = run.payload if revision is None or run.payload is not None else revision.definition.payload
        return LogPage(
            items=[line_view(line, redact, payload) for line in page.lines],
            cursor=listing.next(page.position),
            searched_to=from_ms(page.searched_to),
            sources=page.sources,
            missing=self._missing(run, page) if page.position is None else None,
        )

    def _end_of(self, run: RunRow) -> int:
        ended = run.ended_at if run.state in TERMINAL else None
        return self.session.clock() if ended is None else max(ended, run.due)

    def _revision_of(self, run: RunRow) -> Revision | None:
        """Of its schedule; None for a one-off, and where it cannot be read or has left the table."""
        if run.ref.is_one_off:
            return None
        try:
            return find_revision(run.ref.owner, run.revision, self.session.services)
        except Unreadable:
            return None

    def _queues_of(self, run: RunRow, revision: Revision | None) -> Sequence[str | None]:
        """The queues whose workers may have run it."""
        if run.ref.is_one_off:
            return (run.queue,)
        return (None, *self.session.services.work.names()) if revision is None else (revision.definition.options.queue,)

    def _missing(self, run: RunRow, page: RunLogsPage) -> str | None:
        logs = self.session.services.logs
        if not page.sources:
            return f"there is no log in {logs.place}; {logs.remedy}"
        if run.worker is not None and not logs.has_lines_of(run.worker):
            return (
                f"the last attempt was on the process {run.worker}, which does not log to {logs.place}; {logs.remedy}"
            )
        if page.lines:
            return None
        if run.worker is None:
            return "no worker has started it, so nothing was logged about it"
        if from_ms(self.session.clock()) - from_ms(self._end_of(run)) < _SOON:
            return f"nothing is in {logs.place} yet; lines come some seconds late: look again"
        return (
            f"nothing is in {logs.place}: the lines are over their retention, or a worker logs elsewhere; {logs.remedy}"
        )
