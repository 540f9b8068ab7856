"""The audit in the rows of its table: entries in their acts' transactions, gates, closes.

    <tenant>#2026-11-22     <stamp>#<id>    an entry
    <tenant>#~shut          2026-11-22#07   a gate of a day that is closed: an open day has none
    <tenant>#~close         00000007        a close
    ~days#2026-11-22        <tenant>        the tenant may have entries of that day: put before the first of them
    ~done                   2026-11-22      all tenants of that day are closed

An entry's transaction checks that its gate is not there, so no entry comes after its day's close. Who writes entries needs no permission
but to put them and to check gates, in partitions that begin with a tenant and a year.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import date
from itertools import islice
from typing import Any

from quarterjack.domain.audit import GATES, AuditAct, AuditEntryRow, DayClose, date_of, digest_of
from quarterjack.domain.tenants.caller import Via
from quarterjack.domain.times import STAMP_DIGITS
from quarterjack.errors import Unavailable, Unreadable
from quarterjack.state.transition import Absent, Condition
from quarterjack.stores.paging import OnRead, RowPage
from quarterjack.stores.rows import present, readable, reads
from quarterjack.stores.tables import AUDIT, Row, RowQuery, RowTables, RowWrite, begins_with, put_new
from quarterjack.values import value

_DONE = "~done"
_SAME = ("id", "call", "actor", "identity", "before", "after", "version", "reason", "salt")  # named as the fields


def transact(tables: RowTables, verb: str, writes: Sequence[RowWrite], about: str, entry: AuditEntryRow | None) -> bool:
    """One transaction, with the entry of the act if it has one; False, and nothing is written, if a condition does not hold.

    Raises Unavailable, also if the entry's day is closed.
    """
    if entry is None:
        return tables.transact(verb, writes, about)
    if tables.transact(verb, [*writes, *audit_writes(entry)], about):
        return True
    if tables.get("gate", AUDIT, **_gate_key(entry.tenant, entry.day, entry.gate)) is not None:
        raise Unavailable(
            f"the audit of {date_of(entry.day)} is closed, so nothing was written: this machine's clock is more than an hour "
            "behind, or the process stood still so long; set the clock, then call again"
        )
    return False


def audit_writes(entry: AuditEntryRow) -> list[RowWrite]:
    """What an entry adds to its act's transaction."""
    gate, is_open = _gate_key(entry.tenant, entry.day, entry.gate), Absent("partition")
    return [put_new(AUDIT, audit_row(entry)), RowWrite(table=AUDIT, row=gate, only_if=is_open, kind="check")]


@value(kw_only=True)
class StoredAuditEntry:
    """An entry as it was found in the table."""

    key: str
    digest: str  # as it is stored
    entry: AuditEntryRow | None  # None: its text was erased, or cannot be read
    is_genuine: bool  # the digest is that of the entry; of an erased one nobody can tell
    is_erased: bool = False


@value(kw_only=True)
class StoredClose:
    """A close as it was found in the table."""

    number: int | None  # by its key; None: the key has none
    close: DayClose | None  # None: it cannot be read
    is_genuine: bool  # the stored digest is that of the close
    problem: str = ""  # why it cannot be read


@value(kw_only=True)
class ShutDays:
    """The days of which ``shut`` was called, by their gates."""

    days: frozenset[int]
    # By day the damage of its gates; None: no day is known.
    damaged: Mapping[int | None, str] = field(default_factory=dict)


class Audit:
    """Entries are only ever added, closes only ever put where there is none."""

    def __init__(self, tables: RowTables) -> None:
        self._tables = tables
        self._registered: set[tuple[str, int]] = set()

    # Entries.

    def register(self, tenant: str, day: int) -> None:
        """Before the first entry of a day: remember that the tenant may have some. Once a process. Raises Unavailable."""
        if (tenant, day) not in self._registered:
            row = {"partition": _days(day), "key": tenant}
            self._tables.write("register", RowWrite(table=AUDIT, row=row, kind="put"))
            self._registered.add((tenant, day))

    def write(self, entry: AuditEntryRow) -> None:
        """An entry of an act that writes nothing else. Raises Unavailable, also if its day is closed."""
        if not transact(self._tables, "write_line", [], f"the audit of {entry.tenant}", entry):
            raise Unavailable(f"the entry {entry.key} of the audit of {entry.tenant} was not written; try again")

    def page(
        self,
        tenant: str,
        day: int,
        *,
        first: str,
        last: str,
        only: Condition | None,
        limit: int,
        on_read: OnRead | None = None,
    ) -> RowPage:
        """Entries of a day with keys in ``[first, last]``, newest first, that meet ``only``, in one query of ``limit`` rows.

        An entry that was erased or cannot be read is left out. The page's cursor is the key of the last row that was read, None at the
        end of the day.
        """
        query = RowQuery(
            table=AUDIT,
            partition=_partition(tenant, day),
            first=first,
            last=last,
            only=only,
            newest_first=True,
            limit=limit,
            on_read=on_read,
        )
        rows, reached = self._tables.page("audit", query)
        whole = (row for row in rows if "erased" not in row)
        return RowPage(items=list(readable(whole, audit_entry_of, "audit.unreadable")), cursor=reached)

    def entries(self, tenant: str, day: int) -> Iterator[StoredAuditEntry]:
        """All entries of a day in the order of their keys."""
        return map(_stored, self._tables.rows("entries", begins_with(AUDIT, _partition(tenant, day), "")))

    # Closes.

    def tenants(self, day: int) -> Sequence[str]:
        """The tenants that may have entries of a day."""
        return [row["key"] for row in self._tables.rows("tenants", begins_with(AUDIT, _days(day), ""))]

    def shut_days(self, tenant: str, first: int, last: int) -> ShutDays:
        """The days of an interval, both included, of which ``shut`` was called, and gates among them that are damaged."""
        beyond = date_of(last) + "$"  # "$" sorts after "#"
        gates = RowQuery(table=AUDIT, partition=f"{tenant}#~shut", first=date_of(first), last=beyond)
        rows = self._tables.rows("shut_days", gates)
        counted, damaged = Counter[int](), dict[int | None, str]()
        for row in rows:
            day = _day_of(row["key"])
            if day is None or row.get("day") != day:
                damaged[day] = f"gate {row['key']!r} is not as it was written"
            if day is not None:
                counted[day] += 1
        for day, number in counted.items():
            if number != GATES:
                damaged.setdefault(day, f"{number} of its {GATES} gates are there")
        return ShutDays(days=frozenset(counted), damaged=damaged)

    def shut(self, tenant: str, day: int, *, now: int) -> None:
        """From the return on no entry of that day is accepted."""
        rows = [_gate_key(tenant, day, gate) | {"day": day, "at": now} for gate in range(GATES)]
        puts = [RowWrite(table=AUDIT, row=row, kind="put") for row in rows]
        self._tables.transact("shut", puts, f"the close of {tenant}'s {date_of(day)}")

    def closes(self, tenant: str, *, newest: int | None = None) -> Sequence[StoredClose]:
        """All closes of a tenant, or so many of the newest, in the order of their numbers, also those that cannot be read."""
        query = begins_with(AUDIT, f"{tenant}#~close", "", newest_first=True, limit=newest)
        rows = list(islice(self._tables.rows("closes", query), newest))
        return [_stored_close(row) for row in reversed(rows)]

    def close(self, close: DayClose) -> bool:
        """Put a close; False, and nothing is written, if its number exists."""
        return self._tables.write("close_day", put_new(AUDIT, close_row(close)))[0]

    def done_days(self) -> frozenset[int]:
        """The days of which ``mark_done`` was told."""
        rows = self._tables.rows("done_days", begins_with(AUDIT, _DONE, ""))
        return frozenset(day for row in rows if (day := _day_of(row["key"])) is not None)

    def mark_done(self, day: int) -> None:
        """Remember that all tenants of a day are closed."""
        row: Row = {"partition": _DONE, "key": date_of(day), "day": day}
        self._tables.write("mark_done", RowWrite(table=AUDIT, row=row, kind="put"))


# Rows.


def _partition(tenant: str, day: int) -> str:
    return f"{tenant}#{date_of(day)}"


def _days(day: int) -> str:
    return f"~days#{date_of(day)}"


def _day_of(key: str) -> int | None:
    """The day (since 1970, UTC) with which a key begins; None: it begins with none."""
    try:
        return (date.fromisoformat(key[: len("2026-11-22")]) - date(1970, 1, 1)).days
    except ValueError:
        return None


def _gate_key(tenant: str, day: int, gate: int) -> Row:
    return {"partition": f"{tenant}#~shut", "key": f"{date_of(day)}#{gate:02d}"}


def audit_row(entry: AuditEntryRow) -> Row:
    """An entry as a row, with its digest."""
    row = {name: getattr(entry, name) for name in _SAME} | {
        "partition": _partition(entry.tenant, entry.day),
        "key": entry.key,
        "act": str(entry.act),
        "via": str(entry.via),
        "object": entry.target,
        "schedule": entry.schedule,
        "detail": json.dumps(entry.detail, sort_keys=True) if entry.detail else None,
    }
    row = present(row)
    return row | {"digest": digest_of(row)}


@reads("entry {key} of the audit {partition}")
def audit_entry_of(row: Mapping[str, Any]) -> AuditEntryRow:
    """An entry from its row. Raises Unreadable, TooNew."""
    return AuditEntryRow(
        tenant=row["partition"].partition("#")[0],
        at=int(row["key"][:STAMP_DIGITS]),
        act=AuditAct(row["act"]),
        via=Via(row["via"]),
        target=row["object"],
        detail=json.loads(row.get("detail", "{}")),
        **{name: row[name] for name in _SAME if name in row},
    )


def _stored(row: Row) -> StoredAuditEntry:
    digest, entry = str(row.get("digest", "")), None
    if "erased" in row:
        return StoredAuditEntry(key=row["key"], digest=digest, entry=None, is_genuine=True, is_erased=True)
    with suppress(Unreadable):
        entry = audit_entry_of(row)
    return StoredAuditEntry(key=row["key"], digest=digest, entry=entry, is_genuine=_digest_of(row) == digest)


def _digest_of(row: Row) -> str | None:
    """None: it has values that no entry has."""
    try:
        return digest_of(row)
    except (TypeError, ValueError):
        return None


def _stored_close(row: Row) -> StoredClose:
    key = str(row["key"])
    number = int(key) if key.isascii() and key.isdigit() else None
    try:
        close = close_of(row)
    except Unreadable as problem:
        return StoredClose(number=number, close=None, is_genuine=False, problem=str(problem))
    is_genuine = row.get("digest") == close.digest and close.number == number
    return StoredClose(number=number, close=close, is_genuine=is_genuine)


def close_row(close: DayClose) -> Row:
    """A close as a row."""
    return vars(close) | {"partition": f"{close.tenant}#~close", "key": f"{close.number:08d}", "digest": close.digest}


@reads("close {key} of {partition}")
def close_of(row: Mapping[str, Any]) -> DayClose:
    """A close from its row; its digest is worked out again. Raises Unreadable, TooNew."""
    numbers = {name: int(row[name]) for name in ("number", "day", "entries", "closed_at")}
    return DayClose(tenant=row["tenant"], root=row["root"], previous=row["previous"], **numbers)
