"""API keys in the rows of the tenants' table.

<tenant>    #key#<name>.<slot>      a key's digest, and what it may do
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from quarterjack.domain.audit import AuditEntryRow
from quarterjack.domain.tenants.api_key import ApiKey
from quarterjack.state.transition import Absent, Compare, all_of, any_of
from quarterjack.stores.audit import transact
from quarterjack.stores.rows import present, readable, reads
from quarterjack.stores.tables import TENANTS, Row, RowTables, RowWrite, begins_with
from quarterjack.stores.tenants.profiles import BELIEVED
from quarterjack.values import replace

KEY = "#key#"
_MOST = 10_000  # keys that a process remembers
_SAME = ("tenant", "name", "digest", "created_by")  # attributes named as the fields
_NUMBERS = ("slot", "created_at", "expires_at", "used_on")  # likewise


class ApiKeyStore:
    """API keys as they are stored. A process remembers a key that it has read for 5 s; thread-safe."""

    def __init__(self, tables: RowTables) -> None:
        self._tables = tables
        self._known: dict[str, tuple[int, ApiKey | None]] = {}  # by tenant and id; single operations need no lock

    def key(self, tenant: str, name: str, slot: int, now: int) -> ApiKey | None:
        """A key, read at most 5 s before ``now`` (UTC ms, by the caller's clock); None if there is none. Raises Unavailable."""
        about = f"{tenant}{_item(name, slot)}"
        read_at, known = self._known.get(about, (-BELIEVED, None))
        if 0 <= now - read_at < BELIEVED:
            return known
        row = self._tables.get("api_key", TENANTS, tenant=tenant, item=_item(name, slot))
        found = None if row is None else key_of(row)
        if len(self._known) >= _MOST:
            self._known.clear()  # what is needed is read again
        self._known[about] = now, found
        return found

    def keys(self, tenant: str) -> Sequence[ApiKey]:
        """All keys of a tenant as they are stored now, by name. Raises Unavailable."""
        rows = self._tables.rows("api_keys", begins_with(TENANTS, tenant, KEY))
        return list(readable(rows, key_of, "api_key.unreadable"))

    def put(self, key: ApiKey, audit: AuditEntryRow) -> bool:
        """One transaction: put a key, and ``audit``. False, and nothing is written, if its slot has a key that is valid.

        Raises Unavailable.
        """
        ended = all_of(Compare("expires_at", "<=", audit.at), Compare("tenant", "=", key.tenant))
        write = RowWrite(table=TENANTS, row=key_row(key), only_if=any_of(Absent("tenant"), ended), kind="put")
        return self._transact("put_key", write, key, audit)

    def revoke(self, key: ApiKey, audit: AuditEntryRow) -> bool:
        """One transaction: remove a key, and ``audit``. False, and nothing is written, if its slot has another one or none.

        This process takes it no more from then on, the others within 5 s. Raises Unavailable.
        """
        row = {"tenant": key.tenant, "item": _item(key.name, key.slot)}
        write = RowWrite(table=TENANTS, row=row, only_if=Compare("digest", "=", key.digest), kind="delete")
        return self._transact("revoke_key", write, key, audit)

    def mark_used(self, key: ApiKey, day: int) -> None:
        """Note the day (since 1970, UTC) of its last use. Raises Unavailable."""
        row: Row = {"tenant": key.tenant, "item": _item(key.name, key.slot), "used_on": day}
        self._tables.write(
            "mark_key", RowWrite(table=TENANTS, row=row, only_if=Compare("digest", "=", key.digest), kind="update")
        )
        about = f"{key.tenant}{row['item']}"
        read_at, known = self._known.get(about, (0, None))
        if known is not None and known.digest == key.digest:
            self._known[about] = read_at, replace(known, used_on=day)

    def _transact(self, verb: str, write: RowWrite, key: ApiKey, audit: AuditEntryRow) -> bool:
        about = f"{key.tenant}{_item(key.name, key.slot)}"
        self._known.pop(about, None)
        done = transact(self._tables, verb, [write], f"the key {key.id} of {key.tenant}", audit)
        self._known.pop(about, None)  # another thread may have read it meanwhile
        return done


def _item(name: str, slot: int) -> str:
    return f"{KEY}{name}.{slot}"


def key_row(key: ApiKey) -> Row:
    """A key as a row; lists are JSON."""
    return present(
        {name: getattr(key, name) for name in (*_SAME, *_NUMBERS)}
        | {"item": _item(key.name, key.slot), "can": json.dumps(key.can), "jobs": json.dumps(key.jobs)}
    )


@reads("key {item} of {tenant}")
def key_of(row: Mapping[str, Any]) -> ApiKey:
    """A key from its row; attributes of a later release are ignored. Raises Unreadable, TooNew."""
    texts: dict[str, Any] = {name: str(row[name]) for name in _SAME}
    numbers: dict[str, Any] = {name: int(row[name]) for name in _NUMBERS if name in row}
    return ApiKey(**texts, **numbers, can=tuple(json.loads(row["can"])), jobs=tuple(json.loads(row["jobs"])))
