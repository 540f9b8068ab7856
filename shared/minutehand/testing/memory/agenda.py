"""The agenda in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from minutehand.domain.agenda_entry import AgendaEntry
from minutehand.domain.times import stamp
from minutehand.ports.agenda import DuePage
from minutehand.testing.memory.calls import Calls, Detail, by_count
from minutehand.testing.memory.tables import MemoryTable

WRITES = 25
_ALL = 1_000_000


@dataclass
class AgendaState:
    """What the processes share."""

    entries: MemoryTable[str, Any] = field(default_factory=MemoryTable)  # Entry; anything else is an item that is none
    aside: MemoryTable[str, Any] = field(default_factory=MemoryTable)
    locks: dict[int, tuple[str, int]] = field(default_factory=dict)  # shard → holder, until (UTC ms)
    shards: int = 0  # the config item; 0 until it is made


class MemoryAgenda:
    """The agenda in memory, as one process sees it."""

    def __init__(self, calls: Calls, state: AgendaState, *, shards: int) -> None:
        self._calls, self._state, self._wanted = calls, state, shards
        self._known: int | None = None

    def shards(self, *, fresh: bool = False) -> int:
        if self._known is None or fresh:
            self._known = self._calls.one("GetItem", Detail(place="agenda", verb="shards"), lambda: self._state.shards)
            if self._known < self._wanted:
                detail = Detail(place="agenda", verb="raise_shards")
                self._known = self._calls.one("PutItem", detail, self._raise_shards)
        return self._known

    def _raise_shards(self) -> int:
        self._state.shards = max(self._state.shards, self._wanted)
        return self._state.shards

    def lock(self, shard: int, *, holder: str, now: int, until: int) -> bool:
        def take() -> bool:
            there = self._state.locks.get(shard)
            free = there is None or there[0] == holder or there[1] < now
            if free:
                self._state.locks[shard] = (holder, until)
            return free

        return self._calls.one("UpdateItem", Detail(place="agenda", verb="lock", items=(shard,)), take)

    def unlock(self, shard: int, *, holder: str) -> None:
        def give() -> None:
            if self._state.locks.get(shard, ("", 0))[0] == holder:
                del self._state.locks[shard]

        self._calls.one("DeleteItem", Detail(place="agenda", verb="unlock", items=(shard,)), give)

    def due(self, shard: int, *, upto: int, after: str | None, limit: int) -> DuePage:
        last = stamp(upto + 1)
        page = self._calls.one(
            "Query",
            Detail(place="agenda", verb="due"),
            lambda: self._state.entries.page(str(shard), "", last, limit=limit, after=after),
        )
        return DuePage(
            entries=[entry for _, entry in page.items if isinstance(entry, AgendaEntry)],
            broken=[key for key, entry in page.items if not isinstance(entry, AgendaEntry)],
            last=page.last,
        )

    def put(self, entries: Sequence[AgendaEntry]) -> frozenset[str]:
        # A put replaces the item, and what counts its failures with it.
        fresh = {entry.key: replace(entry, failures=0) for entry in entries}
        return self._write("put", list(fresh.values()), self._put)

    def _put(self, entry: AgendaEntry) -> None:
        self._state.entries.put(str(entry.shard), entry.key, entry)

    def remove(self, entries: Sequence[AgendaEntry]) -> frozenset[str]:
        distinct = {entry.key: entry for entry in entries}
        return self._write("remove", list(distinct.values()), self._remove)

    def _remove(self, entry: AgendaEntry) -> None:
        self._state.entries.delete(str(entry.shard), entry.key)

    def _write(self, verb: str, entries: Sequence[AgendaEntry], do: Any) -> frozenset[str]:
        detail = Detail(place="agenda", verb=verb, items=tuple(entry.key for entry in entries))
        answers = self._calls.many("BatchWriteItem", detail, lambda i: do(entries[i]), batches=by_count(WRITES))
        return frozenset(entries[place].key for place in answers)

    def fail(self, entry: AgendaEntry) -> int:
        def count() -> int:
            there = self._state.entries.get(str(entry.shard), entry.key)
            if not isinstance(there, AgendaEntry):
                return 0
            failed = replace(there, failures=there.failures + 1)
            self._put(failed)
            return failed.failures

        return self._calls.one("UpdateItem", Detail(place="agenda", verb="fail", items=(entry.key,)), count)

    def quarantine(self, entry: AgendaEntry, *, reason: str, now: int) -> None:
        del reason, now
        aside = Detail(place="agenda", verb="set_aside", items=(entry.key,))
        self._calls.one("PutItem", aside, lambda: self._state.aside.put(str(entry.shard), entry.key, entry))
        gone = Detail(place="agenda", verb="remove_aside", items=(entry.key,))
        self._calls.one("DeleteItem", gone, lambda: self._remove(entry))

    def quarantined(self, shard: int) -> Sequence[str]:
        page = self._calls.one(
            "Query",
            Detail(place="agenda", verb="quarantined"),
            lambda: self._state.aside.page(str(shard), "", "~", limit=_ALL),
        )
        return [key for key, _ in page.items]
