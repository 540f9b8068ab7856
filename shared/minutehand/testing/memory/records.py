"""Records in memory, among the rows of the ledger as in DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator

from minutehand.dynamodb.records import contains, readable_records, record_of, record_row
from minutehand.dynamodb.rows import present
from minutehand.ports.records import Record
from minutehand.testing.memory.calls import Calls, MemoryTable, Row


class MemoryRecords:
    """Records as one process sees them."""

    def __init__(self, calls: Calls, rows: MemoryTable[str, Row]) -> None:
        self._calls, self._rows = calls, rows

    def read(self, owner: str, key: str) -> Record | None:
        row = self._calls.one("GetItem", "runs", "record", lambda: self._rows.get(owner, key), (owner, key))
        return None if row is None else record_of(row)

    def write(self, record: Record) -> bool:
        def put() -> bool:
            stored = self._rows.get(record.owner, record.key) or {}
            return put_record(self._rows, record) or contains(stored, record_row(record))

        return self._calls.one("UpdateItem", "runs", "write_record", put, (record.owner, record.key))

    def remove(self, record: Record) -> bool:
        def delete() -> bool:
            stored = self._rows.get(record.owner, record.key)
            if stored is not None and stored["version"] != record.version:
                return False
            self._rows.delete(record.owner, record.key)
            return True

        return self._calls.one("DeleteItem", "runs", "remove_record", delete, (record.owner, record.key))

    def listed(self, owner: str, prefix: str) -> Iterator[Record]:
        found = self._calls.pages(self._rows, "runs", "records", (owner, prefix, f"{prefix}\x7f"))
        return readable_records(found)


def put_record(rows: MemoryTable[str, Row], record: Record | None) -> bool:
    """Put a record if its version follows the stored one, and return whether it does; True for None."""
    if record is None:
        return True
    stored = rows.get(record.owner, record.key)
    if (stored["version"] if stored else 0) != record.version - 1:
        return False
    rewrite_record(rows, record)
    return True


def rewrite_record(rows: MemoryTable[str, Row], record: Record) -> None:
    """Write a record's attributes; other attributes of its row stay."""
    stored = rows.get(record.owner, record.key) or {}
    rows.put(record.owner, record.key, present(stored | record_row(record)))
