"""The figures of the auditor: of the audit, and of its work beside."""

from __future__ import annotations

from quarterjack.auditor.closing import ClosingReport
from quarterjack.auditor.walk import AuditReport
from quarterjack.historian.archive_compaction import CompactionReport
from quarterjack.historian.fold import FoldReport
from quarterjack.signals.measurement import Measurement, counted


def of_audit(report: AuditReport) -> list[Measurement]:
    """Of one audit."""
    return counted(
        Audits=1,
        Rearmed=report.rearmed,
        Unclaimed=report.unclaimed,
        AuditResent=report.resent,
        QuarantinedEntries=report.quarantined,
        AuditFailed=report.failed,
        Overdue=report.overdue,
        PayloadsRemoved=report.removed,
        SchedulesRetired=report.retired,
        RevisionsRemoved=report.revisions,
        AuditStopped=report.stopped,
    )


def of_closing(report: ClosingReport) -> list[Measurement]:
    """Of the days of the audit that were closed."""
    return counted(
        AuditDaysClosed=report.closed, AuditDaysNotClosed=report.failed, AuditContradicted=report.contradicted
    )


def of_compaction(report: CompactionReport) -> list[Measurement]:
    """Of the archive's inbox."""
    return counted(ArchiveCompacted=report.removed, ArchiveUnreadable=report.unreadable)


def of_folding(report: FoldReport) -> list[Measurement]:
    """Of the hours of the history that were folded."""
    return counted(HistoryFolded=report.hours, HistoryNotFolded=report.failed)
