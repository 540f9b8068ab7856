"""A walk: one kind of check that goes through a table in bounded steps, and what all walks of an audit share.

audit ──► walk ──► step, step, step … until the walk's share of the time is over; the next audit continues there
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from quarterjack.auditor.progress import Progress
from quarterjack.domain.agenda_layout import AgendaLayout
from quarterjack.fires.context import FireContext
from quarterjack.ports.services import Clock, Services

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class AuditReport:
    """Counts of what an audit read, found and repaired."""

    schedules: int = 0  # ACTIVE heads whose chains were looked for
    rearmed: int = 0  # without a chain, or paused beyond the end of the pause: their agenda entry put again
    unclaimed: int = 0  # fires of the recent past without a run: claimed now, or skipped by their policy
    moved: int = 0  # runs at instants that are no fires any more, as the rules of a time zone changed: only reported
    resent: int = 0  # runs waiting or running long past their time: sent again
    quarantined: int = 0  # entries that were moved aside, are needed, and wait for an operator
    tidied: int = 0  # entries of closed revisions that lay beyond their end: removed
    resharded: int = 0  # chains that went to another shard, because the layout of the agenda has changed
    failed: int = 0  # schedules, shards and runs that could not be audited
    stopped: int = 0  # 1: its time was over before it was through; the next audit continues there
    removed: int = 0  # large payloads that nothing needs any more: removed
    retired: int = 0  # schedules deleted a retention ago: only their numbering is kept
    revisions: int = 0  # of these: removed
    overdue: int = 0  # runs of any age and kind, in this hour's part of the ledger, long past their time: sent again


@dataclass(kw_only=True)
class Round:
    """What the walks of one audit share."""

    context: FireContext
    layout: AgendaLayout
    report: AuditReport
    progress: Progress
    until: int | None = None  # UTC ms at which the share of the present walk is over; None: never

    @property
    def services(self) -> Services:
        return self.context.services

    @property
    def clock(self) -> Clock:
        return self.context.clock

    def is_over(self) -> bool:
        return self.until is not None and self.clock() >= self.until

    def guarded(self, ids: Mapping[str, str], check: Callable[[], None]) -> None:
        """Run a check. Its failure is counted and logged with ``ids``, and stops no other check."""
        try:
            check()
        except Exception as problem:  # noqa: BLE001 (any failure: the other schedules are audited all the same)
            self.report.failed += 1
            log_failure(ids, problem)


class Walk(Protocol):
    """One kind of check."""

    share: int  # percent of an audit's time

    def step(self) -> bool:
        """One bounded piece; whether the walk has nothing left to do in this audit. Raises Unavailable."""


def log_failure(ids: Mapping[str, str], problem: Exception) -> None:
    log.error("audit.failed", extra={**ids, "error": f"{type(problem).__name__}: {problem}"})
