"""Ended runs as the history knows them."""

from __future__ import annotations

from quarterjack.domain.history.entry import HistoryEntry
from quarterjack.domain.run import Failure, RunRow


def row_of(entry: HistoryEntry) -> RunRow:
    """An ended run as the history knows it: without its result, its error's text, its worker."""
    kind = entry.error_type
    return RunRow(
        ref=entry.run,
        state=entry.state,
        revision=entry.revision,
        job=entry.job,
        due=entry.due,
        not_before=entry.not_before,
        created_at=entry.created_at,
        fence=entry.fence,
        attempt=entry.attempt,
        started_at=entry.started_at,
        ended_at=entry.at,
        reason=entry.reason,
        failure=None if kind is None else Failure(kind=kind, message=""),
        backfill=entry.backfill,
        replay_of=entry.replay_of,
        skipped=entry.skipped,
        skipped_until=entry.skipped_until,
    )
