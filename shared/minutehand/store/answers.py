"""What rows that came back with a refusal say of a write: the same for every ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from minutehand.flow.ports import Moved
from minutehand.model.names import RunRef
from minutehand.model.run import Run


def begun(runs: Iterable[Run], present: Mapping[RunRef, Run], refused: Collection[RunRef]) -> dict[RunRef, Moved]:
    """The answers to first leases; a row that refused one and cannot be read leaves it unanswered."""
    result = {}
    for run in runs:
        if run.ref not in refused:
            result[run.ref] = Moved(applied=True, run=run)
        elif run.ref in present:
            there = present[run.ref]
            result[run.ref] = Moved(applied=there.lease_token == run.lease_token, run=there)
    return result
