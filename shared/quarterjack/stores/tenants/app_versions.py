"""The application versions: a record of the installation, read in the requests that read profiles.

~quarterjack/~versions    ~versions    the versions, the latest first
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from quarterjack.domain.audit import AuditEntryRow
from quarterjack.domain.message import reading
from quarterjack.domain.tenants.app_versions import AppVersions, versions_of
from quarterjack.domain.times import SECOND
from quarterjack.errors import Unavailable, Unreadable
from quarterjack.stores.audit import transact
from quarterjack.stores.records import Record, record_of, record_write
from quarterjack.stores.tables import RUNS, Row, RowTables, TableRow

log = logging.getLogger(__name__)

OWNER, _NAME = "~quarterjack/~versions", "~versions"  # no tenant's name begins with "~"
KEY: TableRow = (RUNS, {"owner": OWNER, "key": _NAME})
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
        """As they are stored now (UTC ms). Raises Unavailable."""
        rows, unread = self._tables.read_across("versions", [KEY])
        if unread:
            raise Unavailable("the application versions could not be read; try again")
        self.learn(rows, now)
        assert self._known is not None
        return self._known[1]

    def put(self, versions: AppVersions, audit: AuditEntryRow | None = None) -> bool:
        """Put versions over those that they were made from; False if these have changed. Raises Unavailable."""
        record = Record(owner=OWNER, key=_NAME, version=versions.number + 1, body={"versions": versions.body()})
        done = transact(self._tables, "put_versions", [record_write(record)], "the application versions", audit)
        self._known = None
        return done

    # With a batch of other rows.

    def along(self, now: int) -> list[TableRow]:
        """The key to read with a batch whose rows ``learn`` gets; none if they were read a moment ago."""
        known = self._known
        return [] if known is not None and 0 <= now - known[0] < _ALONG else [KEY]

    def learn(self, rows: Iterable[TableRow], at: int) -> list[TableRow]:
        """The other rows of a read of KEY at that time (UTC ms). Versions that cannot be read are logged, and hold up nothing."""
        others, versions = list[TableRow](), AppVersions()
        for table, row in rows:
            if table is RUNS and row["owner"] == OWNER:
                try:
                    versions = _versions_of(row)
                except Unreadable as problem:
                    log.error("versions.unreadable", extra={"error": str(problem)})
                    versions = AppVersions() if self._known is None else self._known[1]
            else:
                others.append((table, row))
        self._known = at, versions
        return others


def _versions_of(row: Row) -> AppVersions:
    """The versions from their row. Raises Unreadable, TooNew."""
    record = record_of(row)
    with reading("application versions", {}):
        return versions_of(record.version, record.body["versions"])
