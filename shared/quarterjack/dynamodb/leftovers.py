"""What refers to a schedule or to its payloads, by the rows as they are stored; the removal of revisions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from quarterjack.domain.times import stamp
from quarterjack.dynamodb.tables import REVISIONS, RUNS, RowQuery, RowTables, RowWrite, begins_with
from quarterjack.state.backfill import RECORD
from quarterjack.state.transition import OneOf

_FIRST, _LAST = stamp(0), stamp(10**15 - 1) + "\x7f"  # keys of runs and of rows for missed fires
_NEWEST = 10**15  # larger than every revision's number
_HISTORY = 50  # revisions read at a time


class RowLeftovers:
    """Rows of schedules, of whatever release."""

    def __init__(self, tables: RowTables) -> None:
        self._tables = tables

    def has_runs(self, owner: str) -> bool:
        query = RowQuery(table=RUNS, partition=owner, first=_FIRST, last=_LAST, limit=1)
        return bool(self._tables.page("has_runs", query)[0])

    def named(self, owner: str, keys: Collection[str]) -> frozenset[str]:
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
        query = RowQuery(table=REVISIONS, partition=owner, first=1, last=upto, limit=most)
        rows, _ = self._tables.page("removable_revisions", query)
        for row in rows:
            key = REVISIONS.key_of(row)
            self._tables.write("remove_revision", RowWrite(table=REVISIONS, row=key, kind="delete"))
        return len(rows)
