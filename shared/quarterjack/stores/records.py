"""Records: versioned JSON documents among the rows of the table of runs, sorted after all runs of their owner."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quarterjack.domain.audit import AuditEntryRow
from quarterjack.domain.run import AgendaEntry
from quarterjack.domain.times import SECOND
from quarterjack.errors import Unavailable
from quarterjack.state.transition import Absent, Compare, any_of
from quarterjack.stores.agenda import entry_put
from quarterjack.stores.audit import transact
from quarterjack.stores.rows import readable, reads
from quarterjack.stores.tables import RUNS, RowTables, RowWrite, begins_with
from quarterjack.values import replace, value


@value(kw_only=True)
class Record:
    """A small JSON document among an owner's runs; its version decides races."""

    owner: str  # "tenant/name", or "tenant/~word" for a record of the tenant
    key: str  # begins with "~": "~slot", "~backfill~id" …
    version: int  # 1, 2, 3 …
    body: Mapping[str, Any]  # JSON-able
    expires: int | None = None  # UTC ms after which it may be deleted


class Records:
    """State beside runs: the holder of a slot, the cursor of a backfill, the result of a client token."""

    def __init__(self, tables: RowTables) -> None:
        self._tables = tables

    def read(self, owner: str, key: str) -> Record | None:
        """One record; None if there is none."""
        row = self._tables.get("record", RUNS, owner=owner, key=key)
        return None if row is None else record_of(row)

    def write(
        self,
        record: Record,
        audit: AuditEntryRow | None = None,
        *,
        beside: Sequence[Record] = (),
        entries: Sequence[AgendaEntry] = (),
    ) -> bool:
        """Put a record if the stored version is one less (version 1: if there is none). True as well if it is stored already.

        With the ``audit`` entry of an act, ``entries`` of the agenda, or other records ``beside`` it, whose versions do not count, it is a
        transaction: False as well if the record is stored already.
        """
        write = record_write(record)
        if audit is not None or beside or entries:
            writes = [write, *(record_write(other, follows=False) for other in beside), *map(entry_put, entries)]
            return transact(self._tables, "write_record", writes, f"record {record.key} of {record.owner}", audit)
        applied, refused = self._tables.write("write_record", write)
        return applied or (refused is not None and all(refused.get(n) == value for n, value in write.row.items()))

    def put_all(self, records: Sequence[Record]) -> None:
        """Put records in batches, whatever is stored: each of its own key. Raises Unavailable."""
        writes = [replace(record_write(record, follows=False), kind="put") for record in records]
        if self._tables.store_all("put_records", writes):
            raise Unavailable(f"records of {records[0].owner} were not accepted; try again")

    def remove(self, record: Record) -> bool:
        """Delete a record if it still has this version. True as well if it is deleted already."""
        row, present = {"owner": record.owner, "key": record.key}, Compare("version", "=", record.version)
        delete = RowWrite(table=RUNS, row=row, only_if=any_of(Absent("version"), present), kind="delete")
        return self._tables.write("remove_record", delete)[0]

    def listed(self, owner: str, prefix: str) -> Iterator[Record]:
        """The records whose keys begin with ``prefix``, in order of key."""
        found = self._tables.rows("records", begins_with(RUNS, owner, prefix))
        return readable(found, record_of, "record.unreadable")


def record_write(record: Record, *, follows: bool = True) -> RowWrite:
    """The write of a record; if it ``follows``, over the version before it: before version 1 there is no row."""
    before = Compare("version", "=", record.version - 1) if record.version > 1 else Absent("version")
    return RowWrite(table=RUNS, row=record_row(record), only_if=before if follows else None)


def record_row(record: Record) -> dict[str, Any]:
    """A record as a row. Equal bodies give equal texts. None is not stored."""
    return {
        "owner": record.owner,
        "key": record.key,
        "version": record.version,
        "body": json.dumps(record.body, sort_keys=True, separators=(",", ":")),
        "ttl": None if record.expires is None else record.expires // SECOND,
    }


@reads("record {owner}#{key}")
def record_of(row: Mapping[str, Any]) -> Record:
    """The reverse of ``record_row``. The expiry is rounded down to seconds. Raises Unreadable, TooNew."""
    return Record(
        owner=row["owner"],
        key=row["key"],
        version=int(row["version"]),
        body=dict(json.loads(row["body"])),
        expires=int(row["ttl"]) * SECOND if "ttl" in row else None,
    )
