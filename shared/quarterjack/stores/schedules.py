"""Schedules: reads of heads and revisions, and the changes of an owner.

A change is one transaction, conditional on the head's version. So an active schedule always has its entry in the agenda, and every
revision belongs to a head.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from quarterjack.domain.audit import AuditEntryRow
from quarterjack.domain.history.dead_run import DeadRunRow
from quarterjack.domain.run import AgendaEntry
from quarterjack.domain.schedule import (
    ClosedBy,
    Freeze,
    Head,
    Revision,
    ScheduleState,
    freeze_key,
    is_freeze,
)
from quarterjack.errors import Unavailable, Unreadable
from quarterjack.state.transition import Absent, Compare, Plus, all_of, any_of
from quarterjack.stores.agenda import entry_delete, entry_put
from quarterjack.stores.audit import transact
from quarterjack.stores.dead_index import dead_put
from quarterjack.stores.paging import OnRead, RowPage
from quarterjack.stores.records import Record, record_write
from quarterjack.stores.rows import readable
from quarterjack.stores.schedule_rows import (
    Definitions,
    RevisionBatch,
    RevisionKey,
    freeze_of,
    freeze_row,
    head_of,
    head_row,
    readable_heads,
    revision_end,
    revision_key,
    revision_key_of,
    revision_of,
    revision_row,
)
from quarterjack.stores.tables import (
    REVISIONS,
    SCHEDULES,
    Row,
    RowQuery,
    RowTables,
    RowWrite,
    ScanPart,
    begins_with,
    put_new,
)
from quarterjack.stores.tenants.profiles import TenantStore
from quarterjack.stores.tenants.schedule_counts import UsageChange, usage_write
from quarterjack.values import replace, value

_HISTORY = 50  # revisions read at a time
_LAST = 10**15  # larger than every revision's number
_OPEN = any_of(Absent("active_until"), Compare("closed_by", "=", str(ClosedBy.DRAINED)))  # a drain may become a pause


@value(kw_only=True)
class IncidentChange:
    """The writes of an incident to a schedule, in one transaction; see ``undertaker.incidents``."""

    head: Head  # with its new state, note and failures
    expected: int  # version of the stored head
    revision: Revision | None = None  # the current one, whose ``failing`` changes
    closes: bool = False  # the revision's end is set as well
    dead: DeadRunRow | None = None  # put into the index of dead runs, where it must not exist
    expires: int = 0  # UTC ms at which the dead run leaves the index
    entries: Sequence[AgendaEntry] = ()  # put into the agenda
    records: Sequence[Record] = ()  # put beside the runs
    audit: AuditEntryRow | None = None  # of the pause, where it closes the revision


class ScheduleStore:
    """Heads, revisions and freezes. A change of a schedule is one transaction, conditional on its head's version."""

    def __init__(self, tables: RowTables, tenants: TenantStore | None = None) -> None:
        self._tables, self._tenants = tables, tenants or TenantStore(tables)
        self.definitions = Definitions(self.revisions)

    # Reads.

    def revisions(self, keys: Iterable[RevisionKey], now: int = 0) -> RevisionBatch:
        """Revisions in batches, and the freezes of the tenants whose ``freeze_key`` is among the keys.

        With ``now`` (UTC ms), in the same requests, the application versions.
        """
        return self.revisions_freezes_profiles(keys, (), now)

    def revisions_freezes_profiles(
        self, keys: Iterable[RevisionKey], tenants: Collection[str], now: int
    ) -> RevisionBatch:
        """Revisions in batches, and in the same requests the freezes of ``tenants`` and what holds for them at ``now`` (UTC ms).

        That is as ``TenantStore.governance`` gives it: a profile is read that is not known yet, or was read a while ago.
        """
        profiles = self._tenants.along(tenants, now)
        wanted = [(REVISIONS, revision_key(*key)) for key in sorted({*keys, *map(freeze_key, tenants)})]
        rows, unread = self._tables.read_across("revisions", [*wanted, *profiles])
        found, frozen, broken = _read([row for table, row in rows if table is REVISIONS])
        return RevisionBatch(
            found=found,
            unanswered=frozenset(revision_key_of(key) for table, key in unread if table is REVISIONS),
            broken=broken,
            frozen=frozen,
            governance=self._tenants.governed(tenants, rows, unread, profiles, now),
            read_at=now,
        )

    def head(self, tenant: str, name: str) -> Head | None:
        """The head of a schedule, deleted ones included; None if there is none."""
        row = self._tables.get("head", SCHEDULES, tenant=tenant, name=name)
        return None if row is None else head_of(row)

    def heads(self, names: Iterable[tuple[str, str]]) -> Sequence[Head]:
        """The heads of schedules (tenant, name) that exist, in batches. Raises Unavailable if not all were answered."""
        keys = [{"tenant": tenant, "name": name} for tenant, name in names]
        rows, unread = self._tables.read("heads", SCHEDULES, keys) if keys else ([], [])
        if unread:
            raise Unavailable(f"{len(unread)} of {len(keys)} schedules were not answered; try again")
        return list(readable_heads(rows))

    def history(self, owner: str) -> Iterator[Revision]:
        """A schedule's revisions, newest first. Pages are read as the iterator advances."""
        query = RowQuery(table=REVISIONS, partition=owner, first=0, last=_LAST, newest_first=True, limit=_HISTORY)
        return readable(self._tables.rows("history", query), revision_of, "revision.unreadable")

    def page(
        self, tenant: str, *, prefix: str, limit: int, cursor: str | None, on_read: OnRead | None = None
    ) -> RowPage:
        """At most ``limit`` heads of a tenant in order of name, deleted ones included, in one query."""
        rows, last = self._tables.page(
            "page", begins_with(SCHEDULES, tenant, prefix, limit=limit, after=cursor or None, on_read=on_read)
        )
        unread = dict[str, Unreadable]()
        heads = list(readable_heads(rows, unread))
        return RowPage(items=heads, cursor=last, unread={owner.partition("/")[2]: why for owner, why in unread.items()})

    def scan_heads(
        self, cursor: str, *, limit: int, unread: dict[str, Unreadable] | None = None
    ) -> tuple[list[Head], str]:
        """A page of the heads of all tenants, for the auditor: of at most ``limit`` rows, in an order that stays.

        ``cursor``: what the call before gave, or "" for the beginning; at the end the new one is "". ``unread`` gets the problems of
        rows that cannot be read, by owner.
        """
        part = ScanPart(number=0, parts=1, after=json.loads(cursor) if cursor else None)
        ((rows, last),) = self._tables.scan_parts("scan_heads", SCHEDULES, [part], only=None, limit=limit)
        return list(readable_heads(rows, unread)), "" if last is None else json.dumps(last)

    # Changes.

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
        audit: AuditEntryRow | None = None,
    ) -> bool:
        """One transaction: close ``previous`` if given, put ``revision``, its first ``entry`` and ``expect``, move the head, add ``audit``.

        ``token`` is put as ``Records.write`` does, ``usage`` is added to the tenant's count. False, and nothing is written, if one of
        them is refused, or if the head's version is not ``expected`` (0: there is no head yet).
        """
        more = [put_new(REVISIONS, revision_row(revision)), *_end(previous), *_put(entry, expect), *_remember(token)]
        more += [] if usage is None else [usage_write(usage)]
        return self._change("arm", head, expected, more, audit)

    def close(
        self,
        head: Head,
        *,
        expected: int,
        revision: Revision | None,
        entry: AgendaEntry | None = None,
        token: Record | None = None,
        audit: AuditEntryRow | None = None,
    ) -> bool:
        """One transaction: move the head, set ``active_until`` and ``closed_by`` of its ``revision``, put ``entry``, ``token``, ``audit``.

        False as in ``arm``, and if the revision is neither open nor closed as DRAINED (a drain that becomes a pause).
        """
        return self._change("close", head, expected, [*_end(revision), *_put(entry), *_remember(token)], audit)

    def note(self, note: IncidentChange) -> bool:
        """Write a change. False, and nothing is written, if the head has moved, the revision is not open, or the index has the dead run."""
        more = [*_put(*note.entries), *(record_write(record, follows=False) for record in note.records)]
        if note.revision is not None:
            more.append(_flag(note.revision, closes=note.closes))
        if note.dead is not None:
            more.append(dead_put(note.dead, note.expires))
        return self._change("note", note.head, note.expected, more, note.audit)

    def _change(
        self, verb: str, head: Head, expected: int, more: Sequence[RowWrite], audit: AuditEntryRow | None
    ) -> bool:
        """One transaction that writes a head over the version that was read, ``more``, and the ``audit`` of the act."""
        row, is_same = head_row(head), Compare("version", "=", expected)
        move = RowWrite(table=SCHEDULES, row=row, only_if=is_same) if expected else put_new(SCHEDULES, row)
        return transact(self._tables, verb, [move, *more], f"the change of {head.owner}", audit)

    def move(self, revision: Revision, entry: AgendaEntry, shard: int) -> bool:
        """One transaction: an open revision and the entry of its chain go to another shard of the agenda.

        False, and nothing is written, if the entry was handled meanwhile, or the revision is closed.
        """
        key, is_there = revision_key(revision.owner, revision.number), Compare("entry", "=", entry.key)
        moved = RowWrite(table=REVISIONS, row=key | {"shard": shard}, only_if=Absent("active_until"))
        writes = [moved, entry_put(replace(entry, shard=shard)), replace(entry_delete(entry), only_if=is_there)]
        return self._tables.transact("move", writes, f"the move of {revision.id} to another shard")

    def complete(self, audit: AuditEntryRow, *, revision: int, to: ScheduleState) -> bool:
        """An ACTIVE head whose current ``revision`` has no further fire becomes COMPLETED or DELETED; False if it is another.

        The ``audit`` of the act names the schedule and the time.
        """
        name, now = audit.schedule, audit.at
        row: Row = {"tenant": audit.tenant, "name": name, "state": str(to), "updated_at": now, "version": Plus(1)}
        row["actor"] = audit.actor
        is_current = all_of(Compare("revision", "=", revision), Compare("state", "=", str(ScheduleState.ACTIVE)))
        move = RowWrite(table=SCHEDULES, row=row, only_if=is_current)
        return transact(self._tables, "complete", [move], f"the end of {audit.target}", audit)

    def freeze(self, freeze: Freeze, audit: AuditEntryRow) -> bool:
        """Put a tenant's freeze in place of the version before it, with the act's audit entry; False if another one is stored.

        Without a version whatever is stored is replaced.
        """
        before = Compare("version", "=", freeze.version - 1) if freeze.version > 1 else Absent("version")
        write = RowWrite(table=REVISIONS, row=freeze_row(freeze), only_if=before if freeze.version else None)
        return transact(self._tables, "freeze", [write], f"the freeze of {freeze.tenant}", audit)


def _read(
    rows: Iterable[Row],
) -> tuple[Mapping[RevisionKey, Revision], Mapping[str, Freeze], Mapping[RevisionKey, Unreadable]]:
    """Revisions and freezes from their rows, and the errors of those that cannot be read."""
    found: dict[RevisionKey, Revision] = {}
    frozen: dict[str, Freeze] = {}
    broken: dict[RevisionKey, Unreadable] = {}
    for row in rows:
        key = revision_key_of(row)
        try:
            if is_freeze(key):
                freeze = freeze_of(row)
                frozen[freeze.tenant] = freeze
            else:
                found[key] = revision_of(row)
        except Unreadable as problem:  # one bad row stops no other
            broken[key] = problem
    return found, frozen, broken


# Parts of a transaction.


def _end(revision: Revision | None) -> list[RowWrite]:
    """Set the end of a revision that is open, or draining."""
    return [] if revision is None else [RowWrite(table=REVISIONS, row=revision_end(revision), only_if=_OPEN)]


def _flag(revision: Revision, *, closes: bool) -> RowWrite:
    """Write on a stored revision whether it fails; if the change ``closes`` it, set its end. It must be open then."""
    row, condition = revision_key(revision.owner, revision.number), Compare("owner", "=", revision.owner)
    row |= {"failing": revision.failing or None}
    if not closes:
        return RowWrite(table=REVISIONS, row=row, only_if=condition)
    return RowWrite(
        table=REVISIONS, row=row | revision_end(revision), only_if=all_of(condition, Absent("active_until"))
    )


def _put(*entries: AgendaEntry | None) -> list[RowWrite]:
    return [entry_put(entry) for entry in entries if entry is not None]


def _remember(token: Record | None) -> list[RowWrite]:
    """Put a client token's record, as ``Records.write`` would."""
    return [] if token is None else [record_write(token)]
