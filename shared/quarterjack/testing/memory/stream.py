"""The stream of the table of runs in memory, with DynamoDB's records, so that they are read by the same code."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NamedTuple
from zlib import crc32

from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.times import DAY, SECOND
from quarterjack.dynamodb.items import to_item
from quarterjack.dynamodb.run_stream import Record, parse_records
from quarterjack.ports.run_stream import STREAM_DAYS, StreamPage, StreamShard, StreamTrimmed
from quarterjack.ports.services import Clock
from quarterjack.stores.tables import RUNS, Row
from quarterjack.testing.memory.calls import Calls, MemoryTable

PAGE = 1_000  # records of one read, as DynamoDB's
MOST = 100_000  # changes that are kept: a stream keeps a day's, which would not fit into memory in a test of a busy day


class _Change(NamedTuple):
    sequence: int
    at: int  # UTC ms
    partition: str
    key: str
    old: Row | None
    new: Row | None
    expired: bool


class StreamedTable(MemoryTable[Any, Row]):
    """A table whose every write is kept for a day of ``clock``. A write that changes nothing is no change, as in DynamoDB."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._changes: deque[_Change] = deque()
        self._last = 0  # sequence number
        self.trimmed = 0  # the last sequence number that is gone

    def put(self, partition: str, key: Any, value: Row) -> None:
        old = self.get(partition, key)
        super().put(partition, key, value)
        if old != value:
            self._note(partition, key, old, value)

    def delete(self, partition: str, key: Any, *, expired: bool = False) -> None:
        old = self.get(partition, key)
        super().delete(partition, key)
        if old is not None:
            self._note(partition, key, old, None, expired=expired)

    def _note(self, partition: str, key: str, old: Row | None, new: Row | None, *, expired: bool = False) -> None:
        self._last += 1
        self._changes.append(_Change(self._last, self._clock(), partition, key, old, new, expired))
        self._trim()

    def _trim(self) -> None:
        oldest = self._clock() - STREAM_DAYS * DAY
        while self._changes and (len(self._changes) > MOST or self._changes[0].at < oldest):
            self.trimmed = self._changes.popleft().sequence

    def later(self, after: int) -> list[_Change]:
        """The changes with later sequence numbers, in their order."""
        self._trim()
        return list(takewhile(lambda change: change.sequence > after, reversed(self._changes)))[::-1]


def _record(change: _Change) -> Record:
    content: dict[str, Any] = {
        "Keys": to_item({RUNS.hash_key: change.partition, RUNS.range_key: change.key}),
        "SequenceNumber": str(change.sequence),
        "ApproximateCreationDateTime": change.at // SECOND,
        "StreamViewType": "NEW_AND_OLD_IMAGES",
    }
    content |= {} if change.old is None else {"OldImage": to_item(change.old)}
    content |= {} if change.new is None else {"NewImage": to_item(change.new)}
    name = "INSERT" if change.old is None else "MODIFY" if change.new is not None else "REMOVE"
    identity = {"userIdentity": {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}} if change.expired else {}
    return {"eventName": name, "dynamodb": content, **identity}


class MemoryRunStream:
    """The stream as one process sees it; ``shards`` is their number, and the owner of a run decides in which one it is."""

    def __init__(self, calls: Calls, table: StreamedTable, *, shards: int = 1) -> None:
        self._calls, self._table, self._shards = calls, table, shards

    def name(self) -> str:
        return "memory"

    def shards(self) -> Sequence[StreamShard]:
        return [StreamShard(id=f"{number:04d}") for number in range(self._shards)]

    def read(self, shard: str, after: str | None) -> StreamPage:
        return self._calls.one("GetRecords", "stream", "read", lambda: self._read(int(shard), after), shard)

    def _read(self, shard: int, after: str | None) -> StreamPage:
        begin = int(after or 0)
        found = [change for change in self._table.later(begin) if self._shard_of(change) == shard]
        if after is not None and begin < self._table.trimmed:
            raise StreamTrimmed(f"position {after} of shard {shard:04d} is trimmed")
        page = found[:PAGE]
        parsed = parse_records(map(_record, page))
        return StreamPage(
            changes=parsed.changes,
            position=str(page[-1].sequence) if page else None,
            at=page[-1].at if page else None,
            notices=parsed.notices,
            unreadable=parsed.unreadable,
            has_more=len(found) > PAGE,
        )

    def _shard_of(self, change: _Change) -> int:
        return crc32(change.partition.encode()) % self._shards


def changes_since(table: StreamedTable, after: int) -> Sequence[RunChange]:
    """All changes with later sequence numbers, in their order."""
    return parse_records(map(_record, table.later(after))).changes
