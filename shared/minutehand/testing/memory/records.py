"""Records in memory, in the rows of the ledger, as the DynamoDB driver has them."""

from __future__ import annotations

from collections.abc import Iterator

from minutehand.dynamodb.records import readable_records, record_of, record_row, says
from minutehand.ports.records import Record
from minutehand.testing.memory.calls import Calls, Detail
from minutehand.testing.memory.tables import MemoryTable, Row


class MemoryRecords:
    """Records as one process sees them."""

    def __init__(self, calls: Calls, rows: MemoryTable[str, Row]) -> None:
        self._calls, self._rows = calls, rows

    def read(self, owner: str, key: str) -> Record | None:
        detail = Detail(place="runs", verb="record", items=((owner, key),))
        row = self._calls.one("GetItem", detail, lambda: self._rows.get(owner, key))
        return None if row is None else record_of(row)

    def write(self, record: Record) -> bool:
        def put() -> bool:
            return put_record(self._rows, record) or says(
                self._rows.get(record.owner, record.key) or {}, record_row(record)
            )

        detail = Detail(place="runs", verb="write_record", items=((record.owner, record.key),))
        return self._calls.one("UpdateItem", detail, put)

    def remove(self, record: Record) -> bool:
        def delete() -> bool:
            there = self._rows.get(record.owner, record.key)
            if there is not None and there["version"] != record.version:
                return False
            self._rows.delete(record.owner, record.key)
            return True

        detail = Detail(place="runs", verb="remove_record", items=((record.owner, record.key),))
        return self._calls.one("DeleteItem", detail, delete)

    def listed(self, owner: str, prefix: str) -> Iterator[Record]:
        detail = Detail(place="runs", verb="records")
        found = self._calls.one(
            "Query", detail, lambda: self._rows.page(owner, prefix, f"{prefix}\x7f", limit=10**6).items
        )
        return readable_records([row for _, row in found])


def put_record(rows: MemoryTable[str, Row], record: Record | None) -> bool:
    """Put a record if its version follows the one that is there; whether it could be. None is nothing to put."""
    if record is None:
        return True
    there = rows.get(record.owner, record.key)
    if (there["version"] if there else 0) != record.version - 1:
        return False
    rewrite_record(rows, record)
    return True


def rewrite_record(rows: MemoryTable[str, Row], record: Record) -> None:
    """Write a record's attributes; others that its row has stay."""
    there = rows.get(record.owner, record.key) or {}
    row = {**there, **record_row(record)}
    rows.put(record.owner, record.key, {name: value for name, value in row.items() if value is not None})
