"""What refers to a schedule or to its payloads, by the rows as they are stored; the removal of revisions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from quarterjack.domain.times import stamp
from quarterjack.state.backfill import RECORD
from quarterjack.state.transition import OneOf
from quarterjack.stores.tables import REVISIONS, RUNS, RowQuery, RowTables, RowWrite, begins_with

_FIRST, _LAST = stamp(0), stamp(10**15 - 1) + "\x7f"  # keys of runs and of rows for missed fires
_NEWEST = 10**15  # larger than every revision's number
_HISTORY = 50  # revisions read at a time


MOST_KEYS = 100  # of one question


class Leftovers:
    """What still refers to a schedule or to its payloads.

    A row that cannot be read counts as a reference: a later release may have written it.
    """

    def __init__(self, tables: RowTables) -> None:
        self._tables = tables

    def has_runs(self, owner: str) -> bool:
        """Whether a schedule has a row of a run, of whatever state, or of missed fires."""
        query = RowQuery(table=RUNS, partition=owner, first=_FIRST, last=_LAST, limit=1)
        return bool(self._tables.page("has_runs", query)[0])

    def named(self, owner: str, keys: Collection[str]) -> frozenset[str]:
        """Those of at most MOST_KEYS payloads of a schedule that a backfill, a revision or the row of a run names, asked in that order.

        Reads all revisions, and all rows of runs, of the schedule unless each key is found before.
        """
        left = set(keys)
        for row in self._tables.rows("naming_backfills", begins_with(RUNS, owner, RECORD)):
            left -= {key for key in left if key in row.get("body", "")}
        revisions = RowQuery(table=REVISIONS, partition=owner, first=0, last=_NEWEST, newest_first=True, limit=_HISTORY)
        runs = RowQuery(table=RUNS, partition=owner, first=_FIRST, last=_LAST)
        for verb, query in (("naming_revisions", revisions), ("naming_runs", runs)):
            left -= self._named(verb, query, left)
        return frozenset(keys) - left

    def _named(self, verb: str, query: RowQuery, keys: Collection[str]) -> set[str]:
        found = set[str]()
        if not keys:
            return found
        only = OneOf("payload_ref", tuple(sorted(keys)))
        for row in self._tables.rows(verb, replace(query, only=only)):
            found.add(row["payload_ref"])
            if len(found) == len(keys):
                break
        return found

    def remove_revisions(self, owner: str, *, upto: int, most: int) -> int:
        """Remove at most so many revisions of a deleted schedule up to a number, one after the other, oldest first; how many."""
        query = RowQuery(table=REVISIONS, partition=owner, first=1, last=upto, limit=most)
        rows, _ = self._tables.page("removable_revisions", query)
        for row in rows:
            key = REVISIONS.key_of(row)
            self._tables.write("remove_revision", RowWrite(table=REVISIONS, row=key, kind="delete"))
        return len(rows)
