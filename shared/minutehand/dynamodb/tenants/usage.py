"""What tenants use of their limits, among their records in the ledger's table, where those who schedule may write.

A tenant has these rows:

    <tenant>/~limits    ~rate~runs     until                            a bucket of tokens: see state/tenants/token_bucket.py
                        ~schedules     schedules, fires, version, …     changed in the transactions that arm schedules
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from minutehand.concurrency.forks import HoldsLocks
from minutehand.domain.names import schedule_owner
from minutehand.domain.tenants.limits import AcceptedRate, RateWord
from minutehand.dynamodb.rows import reads
from minutehand.dynamodb.tables import RUNS, Row, RowTables, RowWrite
from minutehand.errors import Unavailable
from minutehand.ports.tenants.usage import ScheduleCount, UsageChange
from minutehand.state.tenants.token_bucket import PERIOD, SharedBucket, TokenLease
from minutehand.state.transition import Absent, Compare, Plus, all_of

log = logging.getLogger(__name__)

_OWNER, _RATE, _COUNT = "~limits", "~rate~", "~schedules"
_ROUNDS = 4  # writes of one lease: other processes may change the bucket between two of them
_MOST = 10_000  # leases that a process remembers


class _Leases(HoldsLocks):
    """A lease, and the lock with which one thread at a time asks for more."""

    def __init__(self) -> None:
        self.lease = TokenLease()
        self.until: int | None = None  # the bucket as it was seen last; None: it was not, or there is none
        super().__init__()

    def _make_locks(self) -> None:
        self.lock = threading.Lock()


class RowUsage:
    """Buckets and counts in the rows of a table, and the leases of this process."""

    def __init__(self, tables: RowTables) -> None:
        self._tables = tables
        self._leases: dict[tuple[str, RateWord], _Leases] = {}  # single operations of a dict need no lock

    def take(self, tenant: str, rate: AcceptedRate, now: int) -> int:
        if len(self._leases) >= _MOST:
            self._leases.clear()  # costs a write for each that is still needed
        known = self._leases.setdefault((tenant, rate.word), _Leases())
        with known.lock:
            wait = known.lease.take(now)
            if wait is not None:
                return wait
            wanted = known.lease.wants(rate)
            try:
                tokens, wait = self._lease(tenant, SharedBucket(rate, now), wanted, known)
            except Unavailable as problem:
                log.warning("limit.open", extra={"tenant": tenant, "limit": str(rate.word), "error": str(problem)})
                known.lease.is_open = True
                return 0
            return known.lease.leased(now, wanted, tokens, wait)

    def _lease(self, tenant: str, bucket: SharedBucket, wanted: int, known: _Leases) -> tuple[int, int]:
        """Tokens that were leased, and milliseconds until the next if these are not all that were wanted. Raises Unavailable.

        The first write is for the bucket as it was seen last. Others only take: one that was empty then is not asked.
        """
        key = _key(tenant, f"{_RATE}{bucket.rate.word}")
        for _ in range(_ROUNDS):
            attempt = bucket.take_from(known.until, wanted)
            if attempt is None:
                return 0, bucket.wait(known.until or 0)
            write = RowWrite(table=RUNS, row=key | {"until": attempt.until}, only_if=attempt.only_if)
            applied, there = self._tables.write("lease_tokens", write, returning=True)
            known.until = None if there is None or "until" not in there else int(there["until"])
            if applied:
                return attempt.tokens, bucket.wait(known.until or 0)
        return 0, PERIOD  # others were faster each time

    def left(self, tenant: str, rate: AcceptedRate, now: int) -> int:
        row = self._tables.get("tokens_left", RUNS, **_key(tenant, f"{_RATE}{rate.word}"))
        return SharedBucket(rate, now).there(None if row is None or "until" not in row else int(row["until"]))

    def count(self, tenant: str) -> ScheduleCount | None:
        row = self._tables.get("schedule_count", RUNS, **_key(tenant, _COUNT))
        return None if row is None else count_of(row)

    def put_count(self, count: ScheduleCount) -> bool:
        is_same = Compare("version", "=", count.version - 1) if count.version > 1 else Absent("version")
        write = RowWrite(table=RUNS, row=count_row(count), only_if=is_same, kind="put")
        applied, _ = self._tables.write("put_count", write)
        return applied


def usage_write(change: UsageChange) -> RowWrite:
    """The part of a transaction that adds to the count, refused where a limit would not hold."""
    limits = [
        Compare(name, "<=", most - more)
        for name, more, most in (
            ("schedules", change.schedules, change.most_schedules),
            ("fires", change.fires_per_hour, change.most_fires),
        )
        if most is not None and more > 0
    ]
    added = {"schedules": change.schedules, "fires": change.fires_per_hour, "version": 1}
    row: dict[str, Any] = _key(change.tenant, _COUNT) | {name: Plus(more) for name, more in added.items()}
    return RowWrite(table=RUNS, row=row, only_if=all_of(Compare("version", ">=", 1), *limits))


def _key(tenant: str, key: str) -> Row:
    return {"owner": schedule_owner(tenant, _OWNER), "key": key}


def count_row(count: ScheduleCount) -> Row:
    """A count as a row."""
    return _key(count.tenant, _COUNT) | {
        "schedules": count.schedules,
        "fires": count.fires_per_hour,
        "version": count.version,
        "counted_at": count.counted_at,
    }


@reads("count {owner}#{key}")
def count_of(row: Mapping[str, Any]) -> ScheduleCount:
    """The reverse of ``count_row``. Raises Unreadable, TooNew."""
    return ScheduleCount(
        tenant=row["owner"].partition("/")[0],
        schedules=int(row["schedules"]),
        fires_per_hour=int(row["fires"]),
        version=int(row["version"]),
        counted_at=int(row["counted_at"]),
    )
