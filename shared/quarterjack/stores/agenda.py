"""The agenda: entries by shard and due time, a lock for each shard, one config item."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from quarterjack.domain.run import AgendaEntry
from quarterjack.domain.tenants.agenda_layout import AgendaLayout, parse_places
from quarterjack.domain.times import MINUTE, SECOND, stamp
from quarterjack.errors import Misconfigured, QuarterjackError, TooNew, Unavailable, Unreadable
from quarterjack.state.transition import Absent, Compare, Plus, all_of, any_of
from quarterjack.stores.rows import entry_of, entry_row, reads, shard_key
from quarterjack.stores.tables import AGENDA, Row, RowQuery, RowTables, RowWrite, begins_with
from quarterjack.values import replace, value

log = logging.getLogger(__name__)

BELIEVED = 5 * MINUTE  # how long a process that is no ticker goes by the layout that it has read
_AGAIN = 10 * SECOND  # before it is read again for a weight, if that failed
CONFIG = {"shard": "config", "entry": "config"}
LOCK = "lock"  # sorts after every entry, as the keys of all other items do
_QUARANTINED = "quarantined#"


@value(kw_only=True)
class DuePage:
    """One page of due entries."""

    entries: Sequence[AgendaEntry]  # in order of due time
    broken: Sequence[str] = ()  # keys of items that are no entries; they are left in place
    newer: Sequence[str] = ()  # keys of entries of a later schema; that release's ticker handles them
    last: str | None = None  # key after which the next page begins; None at the end


class Agenda:
    """The durable to-do list of the tickers: entries by shard and due time, and a lock for each shard.

    ``shards`` is the number of common shards that the settings ask for; ``clock`` gives UTC ms; ``name`` is the prefix of the tables.
    """

    def __init__(self, tables: RowTables, *, shards: int, clock: Callable[[], int], name: str | None = None) -> None:
        self._tables, self._wanted, self._clock, self.name = tables, shards, clock, name
        self._known: tuple[int, AgendaLayout] | None = None  # with the instant (UTC ms) before it was read
        self._restores = False  # whether this process reconciles restored tables
        self._unread = 0  # when (UTC ms) it could not be read for a weight

    def layout(self, *, fresh: bool = False) -> AgendaLayout:
        """The shards, and what tenants have of their own, from the config item, which is made from the settings on first use.

        What a process has read it believes for five minutes; tickers read it ``fresh``. Raises Unavailable, Misconfigured.
        """
        now, known = self._clock(), self._known
        if known is not None and not fresh and 0 <= now - known[0] < BELIEVED:
            return known[1]
        try:
            found = self._read_layout()
        except Unavailable as problem:
            if known is None or fresh:
                raise
            log.warning("layout.unread", extra={"error": str(problem)})
            # An older layout leads to shards that tickers read.
            found = known[1]
        self._known = now, found
        return found

    def weight_of(self, tenant: str) -> int:
        """For how many tenants a tenant counts; one while the layout cannot be read: its messages are sent all the same."""
        now = self._clock()
        if self._known is None and 0 <= now - self._unread < _AGAIN:
            return 1
        try:
            return self.layout().weight_of(tenant)
        except QuarterjackError:
            self._unread = now
            return 1

    def _read_layout(self) -> AgendaLayout:
        """What the config item says; made from the settings on first use, with more shards if the settings ask for more."""
        while True:
            config = self._tables.get("layout", AGENDA, **CONFIG)
            present = layout_of(config) if config else None
            if self.is_restored(present) and not self._restores:
                raise Misconfigured(
                    f"the tables {self.name}-… were restored and are not reconciled; run `quarterjack restore plan`"
                )
            layout = (present or AgendaLayout(shards=0, tables=self.name)).grown(self._wanted)
            if self._restores or layout == present:
                return layout
            if self._tables.write("raise_shards", layout_put(layout, present))[0]:
                return layout

    def is_restored(self, layout: AgendaLayout | None) -> bool:
        """Whether a layout is that of other tables, from which these were restored."""
        return layout is not None and None not in (self.name, layout.tables) and self.name != layout.tables

    def restore(self) -> None:
        """From now on this process works with tables that are not reconciled: it reconciles them."""
        self._restores, self._known = True, None

    def restored_layout(self) -> AgendaLayout | None:
        """As it is stored, also of tables that are not reconciled; None: there is none."""
        config = self._tables.get("layout", AGENDA, **CONFIG)
        return layout_of(config) if config else None

    def adopt(self, epoch: int) -> bool:
        """Make the layout that of these tables, under an epoch; False if others changed it meanwhile."""
        present = self.restored_layout()
        layout = replace(present or AgendaLayout(shards=0), tables=self.name, epoch=epoch).grown(self._wanted)
        self._known = None
        return layout == present or self._tables.write("adopt", layout_put(layout, present))[0]

    def lock(self, shard: int, *, holder: str, now: int, until: int) -> bool:
        """Take a shard's lock ``until`` (UTC ms); False while another holder has it. A lock only saves duplicate work."""
        is_free = any_of(Absent("until"), Compare("until", "<", now), Compare("holder", "=", holder))
        row = _key(shard, LOCK) | {"until": until, "holder": holder}
        return self._tables.write("lock", RowWrite(table=AGENDA, row=row, only_if=is_free))[0]

    def unlock(self, shard: int, *, holder: str) -> None:
        """Release a lock if ``holder`` still has it."""
        is_held = Compare("holder", "=", holder)
        self._tables.write("unlock", RowWrite(table=AGENDA, row=_key(shard, LOCK), only_if=is_held, kind="delete"))

    def due(self, shard: int | str, *, upto: int, after: str | None, limit: int) -> DuePage:
        """At most ``limit`` entries of a shard or wait queue with ``due <= upto`` (UTC ms) beyond the key ``after``, oldest first."""
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
        """Put entries: the keys that were accepted."""
        return self._tables.store("put", [entry_put(entry) for entry in entries])

    def remove(self, entries: Sequence[AgendaEntry]) -> frozenset[str]:
        """Delete entries: the keys that were accepted."""
        return self._tables.store("remove", [entry_delete(entry) for entry in entries])

    def fail(self, entry: AgendaEntry) -> int:
        """Count a failure of an entry: its failures so far; 0 if the entry no longer exists."""
        row, is_there = _key(entry.shard, entry.key) | {"failures": Plus(1)}, Compare("entry", "=", entry.key)
        applied, now = self._tables.write("fail", RowWrite(table=AGENDA, row=row, only_if=is_there), returning=True)
        return int(now["failures"]) if applied and now else 0

    def quarantine(self, entry: AgendaEntry, *, reason: str, now: int) -> None:
        """Move an entry to where ``due`` does not find it and the auditor does. ``reason`` is text, cut after 500 characters."""
        marks: Row = {"entry": f"{_QUARANTINED}{entry.key}", "reason": reason[:500], "quarantined_at": now}
        self._tables.copy("quarantine", AGENDA, _key(entry.shard, entry.key), entry_row(entry) | marks)
        self._tables.write("remove_quarantined", entry_delete(entry))

    def quarantined(self, shard: int) -> Sequence[str]:
        """Keys of the quarantined entries."""
        rows = self._tables.rows("quarantined", begins_with(AGENDA, shard_key(shard), _QUARANTINED))
        return [row["entry"].removeprefix(_QUARANTINED) for row in rows]


@reads("layout of the agenda")
def layout_of(row: Mapping[str, Any]) -> AgendaLayout:
    """The layout in the config item. Raises Unreadable, TooNew."""
    return AgendaLayout(
        shards=int(row["shards"]),
        tables=None if row.get("tables") is None else str(row["tables"]),
        epoch=int(row.get("epoch", 0)),
        places=parse_places(row.get("places")),
    )


def layout_put(layout: AgendaLayout, present: AgendaLayout | None) -> RowWrite:
    """The write of a layout in place of the one that was read; None: there was none."""
    row = {**CONFIG, "shards": layout.shards, "places": layout.places_as_text(), "tables": layout.tables}
    row |= {"epoch": layout.epoch or None}
    if present is None:
        return RowWrite(table=AGENDA, row=row, only_if=Absent("shards"), kind="put")
    places = present.places_as_text()
    is_same = Absent("places") if places is None else Compare("places", "=", places)
    return RowWrite(table=AGENDA, row=row, only_if=all_of(Compare("shards", "=", present.shards), is_same), kind="put")


def entry_put(entry: AgendaEntry) -> RowWrite:
    """The write of an entry. It replaces one of the same key, and with it the count of its failures."""
    return RowWrite(table=AGENDA, row=entry_row(entry), kind="put")


def entry_delete(entry: AgendaEntry) -> RowWrite:
    """The removal of an entry."""
    return RowWrite(table=AGENDA, row=_key(entry.shard, entry.key), kind="delete")


def _key(shard: int | str, entry: str) -> Row:
    return {"shard": shard_key(shard), "entry": entry}
