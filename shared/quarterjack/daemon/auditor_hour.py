"""One hour of the auditor, in its function and in a process.

    close days of the audit log ─► compact the archive ─► compact the history, compare a sample of it ─► audit the live data

A failure before the audit is logged and counted, and the next hour repeats the work: the audit does not depend on it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random

from quarterjack.auditor.audit import WORKERS, audit
from quarterjack.auditor.history_check import check_history
from quarterjack.auditor.log_closing import close_days
from quarterjack.auditor.walk import AuditReport
from quarterjack.domain.times import DAY
from quarterjack.errors import QuarterjackError
from quarterjack.historian.archive import compact_archive
from quarterjack.historian.page_compaction import compact_pages
from quarterjack.ports.services import Clock, Services
from quarterjack.signals.catalogue import counted
from quarterjack.signals.measurement import Measurement
from quarterjack.signals.reports import of_audit, of_closing, of_compaction, of_page_compaction

log = logging.getLogger(__name__)

Emit = Callable[[Sequence[Measurement]], object]


def audit_hour(
    services: Services,
    *,
    clock: Clock,
    history: bool,
    emit: Emit,
    part: int = DAY,
    rest: Callable[[], int | None] = lambda: None,
    removes: bool = False,
) -> AuditReport:
    """Do the hour's work and pass its figures to ``emit``. Raises what the audit raises.

    ``part``: ms that each part before the audit may take; ``rest`` tells the ms that are left for the audit then (None: no limit).
    ``history``: whether the installation has one. ``removes``: see ``audit``.
    """
    with _beside(emit, "audit.not_closed", "AuditDaysNotClosed"):
        emit(of_closing(close_days(services, clock=clock, budget=part)))
    if services.archive.is_on:
        with _beside(emit, "archive.not_compacted", "ArchiveNotCompacted"):
            emit(of_compaction(compact_archive(services.archive, clock=clock, budget=part)))
    if history:
        with _beside(emit, "history.not_checked", "HistoryNotFolded"):
            emit(of_page_compaction(compact_pages(services, clock=clock, budget=part)))
            emit(counted(HistoryRelisted=check_history(services, clock=clock, random=Random()).relisted))
    report = audit(services, clock=clock, budget=rest(), removes=removes, workers=WORKERS)
    emit(of_audit(report))
    return report


@contextmanager
def _beside(emit: Emit, event: str, metric: str) -> Iterator[None]:
    """Work on which the audit does not depend."""
    try:
        yield
    except QuarterjackError as problem:
        log.error(event, extra={"error": str(problem)})
        emit(counted(**{metric: 1}))
