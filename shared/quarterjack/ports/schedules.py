"""Schedules: heads, revisions and freezes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from quarterjack.domain.audit import AuditLineRow
from quarterjack.domain.run import AgendaEntry, DeadRunRow
from quarterjack.domain.schedule import Freeze, Head, Revision, ScheduleState
from quarterjack.domain.tenants.profile import Governance
from quarterjack.ports.records import OnRead, Record, RowPage
from quarterjack.ports.tenants.usage import UsageChange

RevisionKey = tuple[str, int]  # owner, number


@dataclass(frozen=True, kw_only=True)
class RevisionBatch:
    """The answer to a batch read: a key that is neither found nor unanswered nor broken does not exist."""

    found: Mapping[RevisionKey, Revision] = field(default_factory=dict)
    unanswered: frozenset[RevisionKey] = frozenset()
    broken: Mapping[RevisionKey, Exception] = field(default_factory=dict)  # items that cannot be read as a revision
    frozen: Mapping[str, Freeze] = field(default_factory=dict)  # by tenant, where freeze_key() was among the keys
    governance: Mapping[str, Governance] = field(
        default_factory=dict
    )  # of the tenants asked for, as far as it is known
    read_at: int = 0  # UTC ms, by the reader's clock


@dataclass(frozen=True, kw_only=True)
class IncidentChange:
    """The writes of an incident to a schedule, in one transaction; see ``undertaker.incidents``."""

    head: Head  # with its new state, note and failures
    expected: int  # version of the stored head
    revision: Revision | None = None  # the current one, whose ``failing`` changes
    closes: bool = False  # the revision's end is set as well
    dead: DeadRunRow | None = None  # put into the index of dead runs, where it must not exist
    expires: int = 0  # UTC ms at which that line expires
    entries: Sequence[AgendaEntry] = ()  # put into the agenda
    records: Sequence[Record] = ()  # put beside the runs
    line: AuditLineRow | None = None  # of the pause, where it closes the revision


class ScheduleStore(Protocol):
    """Heads, revisions and freezes. A change of a schedule is one transaction, conditional on its head's version."""

    def head(self, tenant: str, name: str) -> Head | None:
        """The head of a schedule, deleted ones included; None if there is none."""

    def heads(self, names: Iterable[tuple[str, str]]) -> Sequence[Head]:
        """The heads of schedules (tenant, name) that exist, in batches. Raises Unavailable if not all were answered."""

    def revisions(self, keys: Iterable[RevisionKey], *, tenants: Collection[str] = (), now: int = 0) -> RevisionBatch:
        """Revisions in batches, and the freezes of the tenants whose ``freeze_key`` is among the keys.

        Also what holds for ``tenants`` at ``now`` (UTC ms), as ``TenantStore.governance`` gives it: a profile that is not known yet, or
        was read a while ago, is read in the same requests.
        """

    def freeze(self, freeze: Freeze, line: AuditLineRow) -> None:
        """Put a tenant's freeze in place of the stored one, with the act's line. One that has ended stands for none."""

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
        usage: UsageChange | None = None,
        line: AuditLineRow | None = None,
    ) -> bool:
        """One transaction: close ``previous`` if given, put ``revision``, its first ``entry`` and ``expect``, move the head, add ``line``.

        ``token`` is put as ``Records.write`` does, ``usage`` is added to the tenant's count. False, and nothing is written, if one of
        them is refused, or if the head's version is not ``expected`` (0: there is no head yet).
        """

    def close(
        self,
        head: Head,
        *,
        expected: int,
        revision: Revision | None,
        entry: AgendaEntry | None = None,
        token: Record | None = None,
        line: AuditLineRow | None = None,
    ) -> bool:
        """One transaction: move the head, set ``active_until`` and ``closed_by`` of its ``revision``, put ``entry``, ``token``, ``line``.

        False as in ``arm``, and if the revision is neither open nor closed as DRAINED (a drain that becomes a pause).
        """

    def note(self, note: IncidentChange) -> bool:
        """Write a change. False, and nothing is written, if the head has moved, the revision to close is not open, or the line exists."""

    def move(self, revision: Revision, entry: AgendaEntry, shard: int) -> bool:
        """One transaction: an open revision and the entry of its chain go to another shard of the agenda.

        False, and nothing is written, if the entry was handled meanwhile, or the revision is closed.
        """

    def complete(self, line: AuditLineRow, *, revision: int, to: ScheduleState) -> bool:
        """An ACTIVE head whose current ``revision`` has no further fire becomes COMPLETED or DELETED; False if it is another.

        The ``line`` of the act names the schedule and the time.
        """

    def history(self, owner: str) -> Iterator[Revision]:
        """A schedule's revisions, newest first. Pages are read as the iterator advances."""

    def page(
        self, tenant: str, *, prefix: str, limit: int, cursor: str | None, on_read: OnRead | None = None
    ) -> RowPage:
        """At most ``limit`` heads of a tenant in order of name, deleted ones included, in one query."""

    def scan_heads(self, cursor: str, *, limit: int) -> tuple[list[Head], str]:
        """A page of the heads of all tenants, for the auditor: of at most ``limit`` rows, in an order that stays.

        ``cursor``: what the call before gave, or "" for the beginning; at the end the new one is "".
        """
