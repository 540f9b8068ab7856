"""Erasures in the rows of the table of tenants, and the removal of a tenant's rows from all tables.

<tenant>   #erasure    where its erasure stands
~gone      <tenant>    the tenant is being erased, or was: whoever meets data of it later drops it
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from quarterjack.domain.audit import AuditEntryRow
from quarterjack.domain.tenants.erasure import Erasure, ErasurePlace, Kept, SweepRules, Swept, body_of, parse_body
from quarterjack.domain.tenants.profile import TenantProfile
from quarterjack.errors import Unavailable
from quarterjack.state.ending import request_cancel
from quarterjack.state.transition import Absent, Compare, Condition
from quarterjack.stores.audit import transact
from quarterjack.stores.rows import reads
from quarterjack.stores.tables import RUNS, TENANTS, Row, RowTables, RowWrite, ScanPart, begins_with
from quarterjack.stores.tenants.erasure_kinds import TABLES, Finding, Keep, Remove, Replace, found_in, narrowed
from quarterjack.stores.tenants.profiles import BELIEVED, profile_row

ITEM = "#erasure"
GONE = "~gone"  # partition; no tenant's, as `~` begins no name
_PAGE = (
    1_000  # rows of each part that one step reads: of eight parts a few seconds of deletions, if all are the tenant's
)


class ErasureStore:
    """Erasures of tenants, and the rows of a tenant in all tables."""

    def __init__(self, tables: RowTables) -> None:
        self._tables = tables
        self._gone = (-BELIEVED - 1, frozenset[str]())  # with the UTC ms at which it was read

    # Where it stands.

    def gone(self, now: int) -> frozenset[str]:
        """The tenants whose erasure has begun or ended, read at most 5 s before ``now`` (UTC ms). Raises Unavailable."""
        at, known = self._gone
        if not 0 <= now - at <= BELIEVED:
            known = frozenset(row["item"] for row in self._tables.rows("gone", begins_with(TENANTS, GONE, "")))
            self._gone = now, known
        return known

    def read(self, tenant: str) -> Erasure | None:
        """The erasure of a tenant as it is stored; None if there is none. Raises Unavailable, Unreadable."""
        row = self._tables.get("erasure", TENANTS, tenant=tenant, item=ITEM)
        return None if row is None else erasure_of(row)

    def write(self, erasure: Erasure, profile: TenantProfile, audit: AuditEntryRow) -> bool:
        """One transaction: an erasure and a profile over the versions that were read, the tenant among those that are gone, and the
        act's audit entry. False, and nothing is written, if one of the two has changed. Raises Unavailable.
        """
        of_profile = RowWrite(table=TENANTS, row=profile_row(profile), only_if=_follows(profile.version), kind="put")
        mark: Row = {"tenant": GONE, "item": erasure.tenant}
        writes = [of_profile, _write(erasure), RowWrite(table=TENANTS, row=mark, kind="put")]
        return transact(self._tables, "write_erasure", writes, f"the erasure of {erasure.tenant}", audit)

    def save(self, erasure: Erasure) -> bool:
        """Put an erasure over the version that was read; False, and nothing is written, if it has changed. Raises Unavailable."""
        write = _write(erasure)
        applied, refused = self._tables.write("save_erasure", write)
        return applied or refused == write.row  # the response of the first attempt may have been lost

    # The rows.

    def sweep(self, place: ErasurePlace, cursors: Sequence[str | None], rules: SweepRules) -> Swept:
        """Read a page of each part of a table, and remove what is the tenant's. Raises Unavailable: repeat it with the same cursors."""
        table, parts = TABLES[place], len(cursors)
        wanted = [
            ScanPart(number=number, parts=parts, after=json.loads(cursor) if cursor else None)
            for number, cursor in enumerate(cursors)
            if cursor is not None
        ]
        pages = self._tables.scan_parts("sweep", table, wanted, only=narrowed(place, rules.tenant), limit=_PAGE)
        after = list[str | None]([None] * parts)
        swept, findings = Swept(cursors=()), list[tuple[Row, Finding]]()
        for part, (rows, last) in zip(wanted, pages, strict=True):
            after[part.number] = None if last is None else json.dumps(last)
            found = ((row, found_in(place, row, rules)) for row in rows)
            findings += [(row, finding) for row, finding in found if finding is not None]
        swept.cursors = tuple(after)
        for _, finding in findings:
            if isinstance(finding, Keep):
                swept.kept[finding.kind] += 1
            else:
                swept.found[finding.kind] += 1
        if not rules.is_dry:
            self._carry_out(place, findings)
        return swept

    def _carry_out(self, place: ErasurePlace, findings: Iterable[tuple[Row, Finding]]) -> None:
        table, writes = TABLES[place], list[RowWrite]()
        for row, finding in findings:
            match finding:
                case Remove():
                    writes.append(RowWrite(table=table, row=table.key_of(row), kind="delete"))
                case Replace(row=other) if "version" in other:  # a record, which its owner may write meanwhile
                    same = Compare("version", "=", row["version"])
                    self._tables.write("forget", RowWrite(table=table, row=other, only_if=same, kind="put"))
                case Replace(row=other):
                    writes.append(RowWrite(table=table, row=other, kind="put"))
                case Keep(kind=Kept.RUNNING) if "cancel_requested" not in row:
                    self._ask(row)
        left = self._tables.store_all("erase", writes) if writes else ()
        if left:
            raise Unavailable(f"{table.suffix}: {len(left)} of {len(writes)} rows were not removed; call again")

    def _ask(self, row: Row) -> None:
        """Ask the worker of a run to end it; it may have ended meanwhile."""
        asked = request_cancel()
        changes = RUNS.key_of(row) | dict(asked.changes)
        self._tables.write("ask_to_end", RowWrite(table=RUNS, row=changes, only_if=asked.guard))


def _follows(version: int) -> Condition:
    """The condition of the put of a row of this version: it replaces the one before."""
    return Compare("version", "=", version - 1) if version > 1 else Absent("tenant")


def _write(erasure: Erasure) -> RowWrite:
    return RowWrite(table=TENANTS, row=erasure_row(erasure), only_if=_follows(erasure.version), kind="put")


def erasure_row(erasure: Erasure) -> Row:
    """An erasure as a row."""
    return {"tenant": erasure.tenant, "item": ITEM, "version": erasure.version, "body": body_of(erasure)}


@reads("erasure of {tenant}")
def erasure_of(row: Mapping[str, Any]) -> Erasure:
    """The reverse of ``erasure_row``. Raises Unreadable, TooNew."""
    return parse_body(row["tenant"], row["version"], row["body"])
