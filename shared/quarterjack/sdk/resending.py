"""The SDK method that sends waiting runs to the work queues again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from quarterjack.arguments import checked_limit, checked_rate
from quarterjack.concurrency.rate_limits import StopSignal
from quarterjack.domain.job import JobRef
from quarterjack.domain.names import check_flag
from quarterjack.domain.queue import check_queue
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.times import to_ms
from quarterjack.sdk.cursors import Listing
from quarterjack.sdk.history.workers import InstallationMethods

if TYPE_CHECKING:
    from quarterjack.owner.runs.resend import ResendReport

_MOST = 100_000_000  # messages of one call


@dataclass(frozen=True, kw_only=True)
class Resent:
    """Result of ``resend``, and its progress."""

    sent: Mapping[str, int]  # messages that were sent, or would be (dry run), by queue
    refused: Mapping[str, int]  # messages that their queue did not accept: their runs still wait; call again
    in_line: int  # runs that wait for a slot of a concurrency cap: the ticker sends for them
    unread: int  # runs that could not be read: call again
    dry_run: bool  # True: nothing was written or sent
    cursor: str | None  # pass it to go on, also after an error; None: the whole ledger was read

    @property
    def count(self) -> int:
        """Number of messages that were sent, or would be."""
        return sum(self.sent.values())


class ResendMethods(InstallationMethods):
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
        batch. A ``dry_run`` counts, and writes nothing; else the audit has a line of the call.
        Raises InvalidInput, Forbidden, Misconfigured (the default queue does not exist, or refuses the caller or its key), Unavailable.
        """
        self._permit(Verb.RESEND)
        name, every = self._named_job(job), check_flag("all_tenants", all_tenants)
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
                in_line=report.in_line,
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
