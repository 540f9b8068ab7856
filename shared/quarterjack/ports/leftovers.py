"""What still refers to a schedule or to its large payloads, and the removal of what nothing refers to; for the auditor."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

MOST_KEYS = 100  # of one question


class Leftovers(Protocol):
    """Answers count rows that cannot be read as what they are: a later release may have written them."""

    def has_runs(self, owner: str) -> bool:
        """Whether a schedule has a row of a run, of whatever state, or of missed fires."""

    def named(self, owner: str, keys: Collection[str]) -> frozenset[str]:
        """Those of at most MOST_KEYS payloads of a schedule that a backfill, a revision or the row of a run names, asked in that order.

        Reads all revisions, and all rows of runs, of the schedule unless each key is found before.
        """

    def remove_revisions(self, owner: str, *, upto: int, most: int) -> int:
        """Remove at most so many revisions of a deleted schedule up to a number, one after the other, oldest first; how many."""
