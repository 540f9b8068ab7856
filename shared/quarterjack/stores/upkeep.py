"""Upkeep: scans of the ledger, references to a schedule and to its payloads, and the removal of revisions."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping

from quarterjack.domain.names import RunRef
from quarterjack.domain.run import TERMINAL, WAITING, RunRow, RunState
from quarterjack.domain.times import stamp
from quarterjack.state.backfill import RECORD
from quarterjack.state.transition import Compare, Condition, OneOf, all_of
from quarterjack.stores.rows import readable_runs, run_key
from quarterjack.stores.tables import REVISIONS, RUNS, RowQuery, RowTables, RowWrite, ScanPart, begins_with
from quarterjack.values import replace

_FIRST, _LAST = stamp(0), stamp(10**15 - 1) + "\x7f"  # keys of runs and of rows for missed fires
_NEWEST = 10**15  # larger than every revision's number
_HISTORY = 50  # revisions read at a time
_SCANNED = 5_000  # rows of a page of a scan: more than the 1 MiB that DynamoDB reads, so that its size is the bound
_ENDED = OneOf("state", tuple(sorted(TERMINAL)))
_UNFINISHED = OneOf("state", tuple(sorted(WAITING | {RunState.RUNNING})))
MOST_KEYS = 100  # of one question


class Upkeep:
    """Reads of whole tables and partitions, and the removal of what nothing refers to: for the auditor and for rebuilds.

    A row that cannot be read counts as a reference: a later release may have written it.
    """

    def __init__(self, tables: RowTables) -> None:
        self._tables = tables

    # Runs of all owners.

    def unfinished(
        self, parts: Mapping[int, str], *, segments: int, rows: int | None = None
    ) -> tuple[list[RunRow], dict[int, str]]:
        """A page of each of these parts of the ledger, side by side: its runs that are not terminal.

        ``parts``: numbers from 0 to ``segments`` - 1, each with the cursor that an earlier call gave, or "" for its beginning. The second
        value has the cursors of those that are not at their end. A page is at most 1 MiB and ``rows`` rows, those of ended runs included.
        Read with eventual consistency.
        """
        places = [
            ScanPart(number=number, parts=segments, after=json.loads(cursor) if cursor else None)
            for number, cursor in parts.items()
        ]
        most = _SCANNED if rows is None else rows
        pages = self._tables.scan_parts("unfinished", RUNS, places, only=_UNFINISHED, limit=most, eventual=True)
        ends = zip(parts, pages, strict=True)
        found = readable_runs(row for part, _ in pages for row in part)
        return list(found), {number: json.dumps(last) for number, (_, last) in ends if last is not None}

    def runs(self, *, segment: int, segments: int, tenant: str | None = None) -> Iterator[RunRow]:
        """All runs of one segment of the ledger, or those of one tenant among them, read with eventual consistency."""
        only: Condition = Compare("rev", ">=", 0)  # siblings, records and lines of the index of dead runs have none
        if tenant is not None:  # "0" comes after "/"
            only = all_of(only, Compare("owner", ">=", f"{tenant}/"), Compare("owner", "<", f"{tenant}0"))
        return readable_runs(self._tables.scan("runs", RUNS, only=only, part=(segment, segments)))

    def relist(self, ref: RunRef, *, now: int) -> bool:
        """Mark an ended run, so that its row passes the stream again; False if it has not ended."""
        write = RowWrite(table=RUNS, row=run_key(ref) | {"relisted": now}, only_if=_ENDED)
        return self._tables.write("relist", write)[0]

    def revised(self) -> Iterator[str]:
        """The owners of all revisions, each once for each revision, read with strong consistency."""
        rows = self._tables.scan("revised", REVISIONS, only=Compare("number", ">=", 1))
        return (str(row["owner"]) for row in rows)

    # What still refers to a schedule or to its large payloads.

    def has_runs(self, owner: str) -> bool:
        """Whether a schedule has a row of a run, of whatever state, or of missed fires."""
        query = RowQuery(table=RUNS, partition=owner, first=_FIRST, last=_LAST, limit=1)
        return bool(self._tables.page("has_runs", query)[0])

    def named(self, owner: str, keys: Collection[str]) -> frozenset[str]:
        """The keys among at most MOST_KEYS that a backfill, a revision or the row of a run of the schedule names, asked in that order.

        It reads all revisions of the schedule, and all rows of its runs, unless each key is found before.
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
