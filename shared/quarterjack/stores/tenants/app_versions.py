"""The row of the application versions: beside the profiles, so that it is read in the requests that read those.

~~versions    #versions    number, body    the versions as JSON, the latest first
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from quarterjack.domain.audit import AuditEntryRow
from quarterjack.domain.tenants.app_versions import AppVersions, versions_of
from quarterjack.domain.tenants.profile import SHARED
from quarterjack.domain.times import SECOND
from quarterjack.errors import Unavailable
from quarterjack.state.transition import Absent, Compare
from quarterjack.stores.audit import transact
from quarterjack.stores.rows import reads
from quarterjack.stores.tables import TENANTS, RowTables, RowWrite, TableRow

log = logging.getLogger(__name__)

VERSIONS = f"{SHARED}{SHARED}versions"  # in the place of a tenant; no tier has such a name
KEY: TableRow = (TENANTS, {"tenant": VERSIONS, "item": "#versions"})
BELIEVED = 5 * SECOND  # how long a process goes by what it has read
_ALONG = 2 * SECOND  # age from which they are read anew with a batch that is read anyway


class AppVersionStore:
    """The application versions of the installation, as one process knows them; thread-safe."""

    def __init__(self, tables: RowTables) -> None:
        self._tables = tables
        self._known: tuple[int, AppVersions] | None = None  # UTC ms before the request, and what it read

    def current(self, now: int) -> AppVersions:
        """Read at most 5 s before ``now`` (UTC ms); older ones if they cannot be read. Raises Unavailable."""
        known = self._known
        if known is not None and 0 <= now - known[0] <= BELIEVED:
            return known[1]
        try:
            return self.read(now)
        except Unavailable as problem:
            if known is None:
                raise
            log.warning("versions.unread", extra={"error": str(problem)})
            return known[1]

    def read(self, now: int) -> AppVersions:
        """As they are stored now (UTC ms). Raises Unavailable, Unreadable."""
        rows, unread = self._tables.read_across("versions", [KEY])
        if unread:
            raise Unavailable("the application versions could not be read; try again")
        self.learn(rows, now)
        assert self._known is not None
        return self._known[1]

    def put(self, versions: AppVersions, audit: AuditEntryRow | None = None) -> bool:
        """Put versions over those that they were made from; False if these have changed. Raises Unavailable."""
        row = {**KEY[1], "number": versions.number + 1, "body": json.dumps(versions.body(), separators=(",", ":"))}
        is_same = Compare("number", "=", versions.number) if versions.number else Absent("tenant")
        write = RowWrite(table=TENANTS, row=row, only_if=is_same, kind="put")
        done = transact(self._tables, "put_versions", [write], "the application versions", audit)
        self._known = None
        return done

    # With a batch of other rows.

    def along(self, now: int) -> list[TableRow]:
        """The key to read with a batch whose rows ``learn`` gets; none if they were read a moment ago."""
        known = self._known
        return [] if known is not None and 0 <= now - known[0] < _ALONG else [KEY]

    def learn(self, rows: Iterable[TableRow], at: int) -> list[TableRow]:
        """The other rows of a read of KEY at that time (UTC ms). Raises Unreadable."""
        others, versions = list[TableRow](), AppVersions()
        for table, row in rows:
            if table is TENANTS and row["tenant"] == VERSIONS:
                versions = versions_of_row(row)
            else:
                others.append((table, row))
        self._known = at, versions
        return others


@reads("application versions")
def versions_of_row(row: Mapping[str, Any]) -> AppVersions:
    """The versions from their row. Raises Unreadable, TooNew."""
    return versions_of(int(row["number"]), json.loads(row["body"]))
