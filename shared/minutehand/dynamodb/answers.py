"""What rows that came back with a refusal say of a write: the same for every ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from minutehand.domain.names import RunRef
from minutehand.domain.run import RunRow
from minutehand.ports.ledger import TransitionResult


def begun(
    runs: Iterable[RunRow], present: Mapping[RunRef, RunRow], refused: Collection[RunRef]
) -> dict[RunRef, TransitionResult]:
    """The answers to first leases; a row that refused one and cannot be read leaves it unanswered."""
    result = {}
    for run in runs:
        if run.ref not in refused:
            result[run.ref] = TransitionResult(applied=True, run=run)
        elif run.ref in present:
            there = present[run.ref]
            result[run.ref] = TransitionResult(applied=there.lease_token == run.lease_token, run=there)
    return result
