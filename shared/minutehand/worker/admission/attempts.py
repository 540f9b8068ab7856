"""Attempts: the rows of those that failed, put when the run's own row has been settled. Losing one loses detail only."""

from __future__ import annotations

import logging

from minutehand.domain.run import FailedAttemptRow
from minutehand.errors import Unavailable
from minutehand.ports.ledger import Ledger

log = logging.getLogger(__name__)


def record(attempt: FailedAttemptRow, ledger: Ledger) -> None:
    """Put the row of a failed attempt, if the ledger answers."""
    try:
        ledger.record(attempt)
    except Unavailable as problem:
        log.warning("attempt.not_recorded", extra={"run_id": str(attempt.run), "error": str(problem)})
