"""The auditor, once an hour: close days of the audit log, compact the archive and the history, check the invariants on live data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from quarterjack.auditor.audit import WORKERS, audit
from quarterjack.auditor.history_check import check_history
from quarterjack.auditor.log_closing import close_days
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import QuarterjackError
from quarterjack.historian.archive import compact_archive
from quarterjack.historian.page_compaction import compact_pages
from quarterjack.services import system_clock
from quarterjack.settings import from_environment
from quarterjack.signals.catalogue import counted
from quarterjack.signals.reports import of_audit, of_closing, of_compaction, of_page_compaction

from functions.observe import emit, logger, metrics, services

_MARGIN = 2 * MINUTE  # of the function's time: a step that has begun reads a shard of the agenda
_CLOSING = 3 * MINUTE  # the same
_COMPACTION = 3 * MINUTE  # of the function's time at the most
_PAGES = 3 * MINUTE  # the same


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, int]:  # noqa: ARG001 (Lambda passes it)
    """Audit and repair within the function's time, write the counts."""
    _close()
    _compact()
    _advance_history()
    budget = max(context.get_remaining_time_in_millis() - _MARGIN, SECOND)
    report = audit(services(), clock=system_clock, budget=budget, removes=True, workers=WORKERS)
    emit(of_audit(report))
    return dict(vars(report))


@contextmanager
def _beside(event: str, metric: str) -> Iterator[None]:
    """Work on which the audit must not depend: a failure is logged and counted, and the next hour repeats the work."""
    try:
        yield
    except QuarterjackError as problem:
        logger.error(event, extra={"error": str(problem)})
        emit(counted(**{metric: 1}))


def _close() -> None:
    """Close the days of the audit log."""
    with _beside("audit.not_closed", "AuditDaysNotClosed"):
        emit(of_closing(close_days(services(), clock=system_clock, budget=_CLOSING)))


def _compact() -> None:
    """Empty the archive's inbox."""
    store = services().archive
    if not store.is_on:
        return
    with _beside("archive.not_compacted", "ArchiveNotCompacted"):
        emit(of_compaction(compact_archive(store, clock=system_clock, budget=_COMPACTION)))


def _advance_history() -> None:
    """Compact the pages of the history, and compare a sample of it with the ledger."""
    if not from_environment().history:
        return
    with _beside("history.not_checked", "HistoryNotFolded"):
        emit(of_page_compaction(compact_pages(services(), clock=system_clock, budget=_PAGES)))
        emit(counted(HistoryRelisted=check_history(services(), clock=system_clock, random=Random()).relisted))
