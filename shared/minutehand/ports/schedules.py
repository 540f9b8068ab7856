"""Heads and revisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from minutehand.domain.agenda_entry import AgendaEntry
from minutehand.domain.dead_run import DeadRunRow
from minutehand.domain.freeze import Freeze
from minutehand.domain.schedule import Head, Revision, ScheduleState
from minutehand.ports.page import RowPage
from minutehand.ports.records import Record

RevisionKey = tuple[str, int]  # owner, number


@dataclass(frozen=True, kw_only=True)
class RevisionBatch:
    """Answer to a batch read of revisions: a key that is neither found nor unanswered nor broken does not exist."""

    found: Mapping[RevisionKey, Revision] = field(default_factory=dict)
    unanswered: frozenset[RevisionKey] = frozenset()
    broken: Mapping[RevisionKey, Exception] = field(default_factory=dict)  # items that cannot be read as a revision
    frozen: Mapping[str, Freeze] = field(default_factory=dict)  # by tenant, where freeze_key() was among the keys
    read_at: int = 0  # UTC ms, by the clock of whoever read them


@dataclass(frozen=True, kw_only=True)
class IncidentChange:
    """What an incident writes of a schedule, all of it or nothing; see ``incidents``."""

    head: Head  # as it shall be: its state, note and failures
    expected: int  # version of the head that it follows from
    revision: Revision | None = None  # the current one, whose ``failing`` changes
    closes: bool = False  # its end is set as well
    dead: DeadRunRow | None = None  # put into the index of dead runs, where it must not be yet
    expires: int = 0  # UTC ms of that line
    entries: Sequence[AgendaEntry] = ()  # put into the agenda
    records: Sequence[Record] = ()  # put beside the runs


class ScheduleStore(Protocol):
    """Heads and revisions."""

    def head(self, tenant: str, name: str) -> Head | None:
        """The head, read strongly; a deleted one too."""

    def revisions(self, keys: Iterable[RevisionKey]) -> RevisionBatch:
        """Revisions, read strongly in batches; and with them the freezes of the tenants whose ``freeze_key`` is among the keys."""

    def freeze(self, freeze: Freeze) -> None:
        """Put a tenant's freeze, instead of one that is there; one that has ended is none. Raises Unavailable."""

    def arm(
        self,
        head: Head,
        *,
        expected: int,
        previous: Revision | None,
        revision: Revision,
        entry: AgendaEntry | None,
        expect: AgendaEntry | None = None,
        token: Record | None = None,
    ) -> bool:
        """One transaction: close ``previous`` if given, put ``revision``, its first ``entry`` and ``expect``, move the head.

        ``token``, if given, is put beside, as ``Records.write`` would. False if that is refused, or the head's version is no
        longer ``expected`` (0: there is no head yet); then nothing was written.
        """

    def close(
        self,
        head: Head,
        *,
        expected: int,
        revision: Revision | None,
        entry: AgendaEntry | None = None,
        token: Record | None = None,
    ) -> bool:
        """One transaction: move the head, set ``active_until`` and ``closed_by`` of its ``revision``, put ``entry``. As ``arm``.

        The revision must be open, or closed as DRAINED (a drain that becomes a pause).
        """

    def note(self, note: IncidentChange) -> bool:
        """One transaction. False if the head has moved, the revision to close is not open, or the line is there: nothing is written."""

    def complete(self, tenant: str, name: str, *, revision: int, now: int, to: ScheduleState) -> bool:
        """The current revision has no further fire: an ACTIVE head of that revision becomes COMPLETED, or DELETED."""

    def history(self, owner: str) -> Iterator[Revision]:
        """A schedule's revisions, newest first, read strongly and as far as they are asked for."""

    def page(self, tenant: str, *, prefix: str, limit: int, cursor: str | None) -> RowPage:
        """Heads of a tenant in order of name, deleted ones included; reads what it returns and no more."""

    def all_heads(self) -> Iterator[Head]:
        """Every head of every tenant, for the auditor."""
