"""The agenda: entries by shard and due time, a lock for each shard, one config item."""

from __future__ import annotations

from collections.abc import Sequence

from minutehand.domain.run import AgendaEntry
from minutehand.domain.times import stamp
from minutehand.dynamodb.rows import entry_of, entry_row, shard_key
from minutehand.dynamodb.tables import AGENDA, Row, RowQuery, RowTables, RowWrite, begins_with
from minutehand.errors import TooNew, Unreadable
from minutehand.ports.agenda import DuePage
from minutehand.state.transition import Absent, Compare, Plus, any_of

CONFIG = {"shard": "config", "entry": "config"}
LOCK = "lock"  # sorts after every entry, as the keys of all other items do
_QUARANTINED = "quarantined#"


class RowAgenda:
    """The agenda in the rows of a table. ``shards`` is the number that the settings ask for."""

    def __init__(self, tables: RowTables, *, shards: int) -> None:
        self._tables, self._wanted = tables, shards
        self._known: int | None = None

    def shards(self, *, fresh: bool = False) -> int:
        if self._known is None or fresh:
            self._known = self._read_shards()
        return self._known

    def _read_shards(self) -> int:
        """The number in the config item; made from the settings on first use, raised if the settings ask for more."""
        config = self._tables.get("shards", AGENDA, **CONFIG)
        present = int(config["shards"]) if config else 0
        if present >= self._wanted:
            return present
        row, is_less = CONFIG | {"shards": self._wanted}, any_of(Absent("shards"), Compare("shards", "<", self._wanted))
        put = RowWrite(table=AGENDA, row=row, only_if=is_less, kind="put")
        return self._wanted if self._tables.write("raise_shards", put)[0] else self._read_shards()

    def lock(self, shard: int, *, holder: str, now: int, until: int) -> bool:
        is_free = any_of(Absent("until"), Compare("until", "<", now), Compare("holder", "=", holder))
        row = _key(shard, LOCK) | {"until": until, "holder": holder}
        return self._tables.write("lock", RowWrite(table=AGENDA, row=row, only_if=is_free))[0]

    def unlock(self, shard: int, *, holder: str) -> None:
        is_held = Compare("holder", "=", holder)
        self._tables.write("unlock", RowWrite(table=AGENDA, row=_key(shard, LOCK), only_if=is_held, kind="delete"))

    def due(self, shard: int | str, *, upto: int, after: str | None, limit: int) -> DuePage:
        last = stamp(upto + 1)
        query = RowQuery(table=AGENDA, partition=shard_key(shard), first="0", last=last, limit=limit, after=after)
        rows, following = self._tables.page("due", query)
        entries, broken, newer = [], [], []
        for row in rows:
            try:
                entries.append(entry_of(row))
            except TooNew:
                newer.append(row["entry"])
            except Unreadable:
                broken.append(row["entry"])
        return DuePage(entries=entries, broken=broken, newer=newer, last=following)

    def put(self, entries: Sequence[AgendaEntry]) -> frozenset[str]:
        return self._tables.store("put", [entry_put(entry) for entry in entries])

    def remove(self, entries: Sequence[AgendaEntry]) -> frozenset[str]:
        return self._tables.store("remove", [entry_delete(entry) for entry in entries])

    def fail(self, entry: AgendaEntry) -> int:
        row, is_there = _key(entry.shard, entry.key) | {"failures": Plus(1)}, Compare("entry", "=", entry.key)
        applied, now = self._tables.write("fail", RowWrite(table=AGENDA, row=row, only_if=is_there), returning=True)
        return int(now["failures"]) if applied and now else 0

    def quarantine(self, entry: AgendaEntry, *, reason: str, now: int) -> None:
        marks: Row = {"entry": f"{_QUARANTINED}{entry.key}", "reason": reason[:500], "quarantined_at": now}
        self._tables.copy("quarantine", AGENDA, _key(entry.shard, entry.key), entry_row(entry) | marks)
        self._tables.write("remove_quarantined", entry_delete(entry))

    def quarantined(self, shard: int) -> Sequence[str]:
        rows = self._tables.rows("quarantined", begins_with(AGENDA, shard_key(shard), _QUARANTINED))
        return [row["entry"].removeprefix(_QUARANTINED) for row in rows]


def entry_put(entry: AgendaEntry) -> RowWrite:
    """The write of an entry. It replaces one of the same key, and with it the count of its failures."""
    return RowWrite(table=AGENDA, row=entry_row(entry), kind="put")


def entry_delete(entry: AgendaEntry) -> RowWrite:
    """The removal of an entry."""
    return RowWrite(table=AGENDA, row=_key(entry.shard, entry.key), kind="delete")


def _key(shard: int | str, entry: str) -> Row:
    return {"shard": shard_key(shard), "entry": entry}
