"""The agenda."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from quarterjack.domain.agenda_layout import AgendaLayout
from quarterjack.domain.run import AgendaEntry


@dataclass(frozen=True, kw_only=True)
class DuePage:
    """One page of due entries."""

    entries: Sequence[AgendaEntry]  # in order of due time
    broken: Sequence[str] = ()  # keys of items that are no entries; they are left in place
    newer: Sequence[str] = ()  # keys of entries of a later schema; that release's ticker handles them
    last: str | None = None  # key after which the next page begins; None at the end


class Agenda(Protocol):
    """The durable to-do list of the tickers: entries by shard and due time, and a lock for each shard."""

    def layout(self, *, fresh: bool = False) -> AgendaLayout:
        """The shards, and what tenants have of their own, from the config item, which is made from the settings on first use.

        What a process has read it believes for five minutes; tickers read it ``fresh``. Raises Unavailable.
        """

    def lock(self, shard: int, *, holder: str, now: int, until: int) -> bool:
        """Take a shard's lock ``until`` (UTC ms); False while another holder has it. A lock only saves duplicate work."""

    def unlock(self, shard: int, *, holder: str) -> None:
        """Release a lock if ``holder`` still has it."""

    def due(self, shard: int | str, *, upto: int, after: str | None, limit: int) -> DuePage:
        """At most ``limit`` entries of a shard, or of a line, with ``due <= upto`` (UTC ms) beyond the key ``after``, oldest first."""

    def put(self, entries: Sequence[AgendaEntry]) -> frozenset[str]:
        """Put entries: the keys that were accepted."""

    def remove(self, entries: Sequence[AgendaEntry]) -> frozenset[str]:
        """Delete entries: the keys that were accepted."""

    def fail(self, entry: AgendaEntry) -> int:
        """Count a failure of an entry: its failures so far; 0 if the entry no longer exists."""

    def quarantine(self, entry: AgendaEntry, *, reason: str, now: int) -> None:
        """Move an entry to where ``due`` does not find it and the auditor does. ``reason`` is text, cut after 500 characters."""

    def quarantined(self, shard: int) -> Sequence[str]:
        """Keys of the quarantined entries."""
