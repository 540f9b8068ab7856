"""The agenda in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from minutehand.domain.run import AgendaEntry
from minutehand.domain.times import stamp
from minutehand.dynamodb.table_client import WRITES
from minutehand.ports.agenda import DuePage
from minutehand.testing.memory.calls import Calls, MemoryTable


@dataclass
class AgendaState:
    """The table that all processes share."""

    entries: MemoryTable[str, Any] = field(default_factory=MemoryTable)  # AgendaEntry; any other value is a broken item
    quarantined: MemoryTable[str, AgendaEntry] = field(default_factory=MemoryTable)
    locks: dict[int, tuple[str, int]] = field(default_factory=dict)  # shard → holder, until (UTC ms)
    shards: int = 0  # the config item; 0 until it is made

    def put(self, entry: AgendaEntry) -> None:
        self.entries.put(str(entry.shard), entry.key, entry)

    def remove(self, entry: AgendaEntry) -> None:
        self.entries.delete(str(entry.shard), entry.key)


class MemoryAgenda:
    """The agenda in memory, as one process sees it."""

    def __init__(self, calls: Calls, state: AgendaState, *, shards: int) -> None:
        self._calls, self._state, self._wanted = calls, state, shards
        self._known: int | None = None

    def shards(self, *, fresh: bool = False) -> int:
        if self._known is None or fresh:
            self._known = self._calls.one("GetItem", "agenda", "shards", lambda: self._state.shards)
            if self._known < self._wanted:
                self._known = self._calls.one("PutItem", "agenda", "raise_shards", self._raise_shards)
        return self._known

    def _raise_shards(self) -> int:
        self._state.shards = max(self._state.shards, self._wanted)
        return self._state.shards

    def lock(self, shard: int, *, holder: str, now: int, until: int) -> bool:
        def take() -> bool:
            lock = self._state.locks.get(shard)
            free = lock is None or lock[0] == holder or lock[1] < now
            if free:
                self._state.locks[shard] = (holder, until)
            return free

        return self._calls.one("UpdateItem", "agenda", "lock", take, shard)

    def unlock(self, shard: int, *, holder: str) -> None:
        def release() -> None:
            if self._state.locks.get(shard, ("", 0))[0] == holder:
                del self._state.locks[shard]

        self._calls.one("DeleteItem", "agenda", "unlock", release, shard)

    def due(self, shard: int, *, upto: int, after: str | None, limit: int) -> DuePage:
        query = partial(self._state.entries.page, str(shard), "", stamp(upto + 1), limit=limit, after=after)
        page = self._calls.one("Query", "agenda", "due", query)
        return DuePage(
            entries=[entry for _, entry in page.items if isinstance(entry, AgendaEntry)],
            broken=[key for key, entry in page.items if not isinstance(entry, AgendaEntry)],
            last=page.last,
        )

    def put(self, entries: Sequence[AgendaEntry]) -> frozenset[str]:
        # A put replaces the item, and with it the count of its failures.
        return self._write("put", [replace(entry, failures=0) for entry in entries], self._state.put)

    def remove(self, entries: Sequence[AgendaEntry]) -> frozenset[str]:
        return self._write("remove", entries, self._state.remove)

    def _write(self, verb: str, entries: Sequence[AgendaEntry], do: Callable[[AgendaEntry], None]) -> frozenset[str]:
        distinct = {entry.key: entry for entry in entries}
        keys = list(distinct)
        written = self._calls.many("BatchWriteItem", "agenda", verb, keys, lambda i: do(distinct[keys[i]]), most=WRITES)
        return frozenset(keys[i] for i in written)

    def fail(self, entry: AgendaEntry) -> int:
        def count() -> int:
            stored = self._state.entries.get(str(entry.shard), entry.key)
            if not isinstance(stored, AgendaEntry):
                return 0
            failed = replace(stored, failures=stored.failures + 1)
            self._state.put(failed)
            return failed.failures

        return self._calls.one("UpdateItem", "agenda", "fail", count, entry.key)

    def quarantine(self, entry: AgendaEntry, *, reason: str, now: int) -> None:
        del reason, now
        put = partial(self._state.quarantined.put, str(entry.shard), entry.key, entry)
        self._calls.one("PutItem", "agenda", "quarantine", put, entry.key)
        self._calls.one("DeleteItem", "agenda", "remove_quarantined", lambda: self._state.remove(entry), entry.key)

    def quarantined(self, shard: int) -> Sequence[str]:
        entries = self._calls.pages(self._state.quarantined, "agenda", "quarantined", (str(shard), "", "~"))
        return [entry.key for entry in entries]
