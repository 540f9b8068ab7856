"""The durable to-do list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from minutehand.domain.agenda_entry import AgendaEntry


@dataclass(frozen=True, kw_only=True)
class DuePage:
    """Agenda entries in order of due time. ``broken`` are keys of items that are no entries; they are left in place."""

    entries: Sequence[AgendaEntry]
    broken: Sequence[str] = ()
    newer: Sequence[str] = ()  # keys of entries of a later schema, which that release's ticker handles
    last: str | None = None  # key to go on after; None at the end


class Agenda(Protocol):
    """The durable to-do list."""

    def shards(self, *, fresh: bool = False) -> int:
        """How many shards there are: from the config item, which is made from the settings on first use.

        The number only grows, so one read earlier still leads to a shard that tickers read; they ask for a ``fresh`` one.
        """

    def lock(self, shard: int, *, holder: str, now: int, until: int) -> bool:
        """Take a shard's lock until then; False while somebody else has it. It saves duplicate work, no more."""

    def unlock(self, shard: int, *, holder: str) -> None:
        """Give the lock back if it is still the holder's."""

    def due(self, shard: int, *, upto: int, after: str | None, limit: int) -> DuePage:
        """Entries with ``due <= upto``, oldest first, read strongly."""

    def put(self, entries: Sequence[AgendaEntry]) -> frozenset[str]:
        """Put entries; the keys that were accepted."""

    def remove(self, entries: Sequence[AgendaEntry]) -> frozenset[str]:
        """Delete handled entries; the keys that were accepted."""

    def fail(self, entry: AgendaEntry) -> int:
        """Count a failure on an entry that is still there; how many it has now (0: it is gone)."""

    def quarantine(self, entry: AgendaEntry, *, reason: str, now: int) -> None:
        """Move an entry aside, where ``due`` does not see it and the auditor does."""

    def quarantined(self, shard: int) -> Sequence[str]:
        """Keys of the entries that were moved aside."""
