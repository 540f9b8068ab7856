"""Batches: the runs of one ``submit_all``, and the run that starts when the last of them has ended, with counts as its payload.

The id of an item's run follows from the batch's id and the item's number, so a repeated call names the same runs, and the check of a
batch finds them without a list.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from quarterjack.domain.names import RunRef, one_off_ref
from quarterjack.domain.run import FAILED, RunState
from quarterjack.state.waits.park import LETTERS

REFUSED = "R"  # the mark of an item that was refused: it has no run
_FAILED = frozenset(LETTERS[state] for state in FAILED)


def item_id(batch: str, number: int) -> str:
    """The id of an item's run within its tenant (``number`` from 1)."""
    return f"{batch}:{number:05d}"


def item_ref(batch: RunRef, number: int) -> RunRef:
    """The run of an item; ``batch`` is the run that starts when all have ended."""
    return one_off_ref(batch.tenant, item_id(batch.owner.partition("/~")[2], number))


def counts_of(batch: str, size: int, ends: Mapping[int, str] | None = None) -> str:
    """The payload of the run after a batch, as JSON text; ``ends`` are marks by number (None: not known yet)."""
    found = Counter(() if ends is None else ends.values())
    succeeded, refused = found[LETTERS[RunState.SUCCEEDED]], found[REFUSED]
    failed = sum(found[letter] for letter in _FAILED)
    counted = {
        "batch": batch,
        "items": size,
        "succeeded": succeeded,
        "failed": failed,
        "cancelled": found.total() - succeeded - failed - refused,
        "refused": refused,
    }
    return json.dumps(counted, sort_keys=True, separators=(",", ":"))
