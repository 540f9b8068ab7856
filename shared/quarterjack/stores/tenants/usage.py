"""What tenants use of their limits, among their records in the ledger's table, where those who schedule may write.

A tenant has these rows:

    <tenant>/~limits    ~rate~runs     until                            a bucket of tokens: see state/tenants/token_bucket.py
                        ~schedules     schedules, fires, version, …     changed in the transactions that arm schedules
                        ~waiting_runs, ~kept_bytes                      counted again and again: see state/tenants/quota.py
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from quarterjack.concurrency.forks import HoldsLocks
from quarterjack.domain.tenants.limits import AcceptedRate, QuotaWord, RateWord
from quarterjack.domain.times import SECOND
from quarterjack.errors import QuarterjackError
from quarterjack.state.tenants.quota import Quota, QuotaCount, QuotaWrite
from quarterjack.state.tenants.quota import quota_of as parse_quota
from quarterjack.state.tenants.token_bucket import PERIOD, SharedBucket, TokenLease
from quarterjack.state.transition import Absent, Compare
from quarterjack.stores.rows import reads
from quarterjack.stores.tables import RUNS, RowTables, RowWrite
from quarterjack.stores.tenants.schedule_counts import COUNT, ScheduleCount, count_of, count_row, usage_key

log = logging.getLogger(__name__)

_RATE = "~rate~"
_ROUNDS = 4  # writes of one lease: other processes may change the bucket between two of them
_MOST = 10_000  # leases that a process remembers
_PLACES = 5 * SECOND  # for which places of runs are taken
_SHARE = 4  # of the free places a process takes one in so many at once


class _Leases(HoldsLocks):
    """A lease, and the lock with which one thread at a time asks for more."""

    def __init__(self, period: int = PERIOD) -> None:
        self.lease = TokenLease(period)
        self.until: int | None = None  # the bucket as it was seen last; None: it was not, or there is none
        self.quota: Quota | None = None  # likewise
        self.most = 0  # the limit, of which a change counts at once
        super().__init__()

    def _make_locks(self) -> None:
        self.lock = threading.Lock()


Count = Callable[[Quota], QuotaCount]  # counts for whoever has claimed to; raises any error of Quarterjack


class TenantUsage:
    """Usage of tenants with limits; nothing is read or written for other tenants.

    A process leases tokens and places. Thread-safe: no tenant's requests wait for another's.
    """

    def __init__(self, tables: RowTables) -> None:
        self._tables = tables
        self._leases: dict[tuple[str, RateWord | QuotaWord], _Leases] = {}  # single operations of a dict need no lock

    def take(self, tenant: str, rate: AcceptedRate, now: int) -> int:
        """Take a token (``now``: UTC ms): the milliseconds after which to come again; 0: it is taken.

        From tokens that this process has leased: one write a second. Fails open: if the table does not answer, everything is accepted
        for a second.
        """
        known = self._known(tenant, rate.word)

        def ask(wanted: int) -> tuple[int, int]:
            return self._lease(tenant, SharedBucket(rate, now), wanted, known)

        return _take_one(known, tenant, rate.word, rate.burst, now, ask)

    def _known(self, tenant: str, word: RateWord | QuotaWord, period: int = PERIOD) -> _Leases:
        if len(self._leases) >= _MOST:
            self._leases.clear()  # costs a write for each that is still needed
        return self._leases.setdefault((tenant, word), _Leases(period))

    def _lease(self, tenant: str, bucket: SharedBucket, wanted: int, known: _Leases) -> tuple[int, int]:
        """Tokens that were leased, and milliseconds until the next; 0: these are all that were wanted. Raises Unavailable.

        The first write is for the bucket as it was seen last. Others only take: one that was empty then is not asked.
        """
        key = usage_key(tenant, f"{_RATE}{bucket.rate.word}")
        for _ in range(_ROUNDS):
            attempt = bucket.take_from(known.until, wanted)
            if attempt is None:
                return 0, bucket.wait(known.until or 0)
            write = RowWrite(table=RUNS, row=key | {"until": attempt.until}, only_if=attempt.only_if)
            applied, there = self._tables.write("lease_tokens", write, returning=True)
            known.until = None if there is None or "until" not in there else int(there["until"])
            if applied:
                return attempt.tokens, 0 if attempt.tokens == wanted else bucket.wait(known.until or 0)
        return 0, PERIOD  # others were faster each time

    def take_place(self, tenant: str, most: int, now: int, count: Count) -> int:
        """Take one of the places of runs that have not ended: the milliseconds after which to come again; 0: it is taken.

        From places that this process has taken: one write in five seconds. ``count`` is called where they have to be counted anew. Fails
        open: if the table or the history does not answer, everything is accepted for five seconds.
        """
        word = QuotaWord.WAITING_RUNS
        known = self._known(tenant, word, _PLACES)

        def ask(wanted: int) -> tuple[int, int]:
            return self._take(tenant, word, wanted, most, now, count, known)

        return _take_one(known, tenant, word, most, now, ask)

    def give_back_place(self, tenant: str) -> None:
        """A place that was taken is not needed: the next run of this process gets it. No request."""
        known = self._leases.get((tenant, QuotaWord.WAITING_RUNS))
        if known is not None:
            with known.lock:
                known.lease.left += 1

    def take_bytes(self, tenant: str, size: int, most: int, now: int, count: Count) -> int | None:
        """Take so many bytes; None: they are taken. Otherwise how many there would be. Fails open."""
        word = QuotaWord.KEPT_BYTES
        known = self._known(tenant, word)
        with known.lock:
            try:
                taken, _ = self._take(tenant, word, size, most, now, count, known, whole=True)
            except QuarterjackError as problem:
                log.warning("limit.open", extra={"tenant": tenant, "limit": str(word), "error": str(problem)})
                return None
            return None if taken or known.quota is None else known.quota.in_use + size

    def _take(
        self,
        tenant: str,
        word: QuotaWord,
        wanted: int,
        most: int,
        now: int,
        count: Count,
        known: _Leases,
        *,
        whole: bool = False,
    ) -> tuple[int, int]:
        """How much was taken; if nothing was, milliseconds until the next count. Raises what ``count`` raises.

        ``whole``: all that is wanted. Otherwise a part of what is free at the most, so that others find something, too.
        """
        least = wanted if whole else 1
        if known.quota is None:
            known.quota = self.quota(tenant, word)
        for _ in range(_ROUNDS):
            quota = known.quota or Quota()
            if quota.is_due(now, fits=quota.in_use + least <= most):
                quota = known.quota = self._counted(tenant, word, quota, now, count, most - least)
            free = most - quota.in_use
            if free < least:
                return 0, quota.wait(now)
            amount = wanted if whole else min(wanted, max(free // _SHARE, 1))
            applied, known.quota = self._write_quota("take_quota", tenant, word, quota.take(amount, most, now))
            if applied:
                return amount, 0
        return 0, PERIOD  # others were faster each time

    def _counted(self, tenant: str, word: QuotaWord, seen: Quota, now: int, count: Count, room: int) -> Quota:
        """The quota, counted anew by this process, or as it is if another one does that. Raises what ``count`` raises."""
        claimed, quota = self._write_quota("claim_count", tenant, word, seen.claim(now))
        if not claimed:
            return quota
        if word is QuotaWord.KEPT_BYTES:
            quota = quota.begun(now)
        try:
            found = count(quota)
        except QuarterjackError:
            self._write_quota("unclaim_count", tenant, word, quota.unclaimed(seen.counted_at))
            raise
        after = quota.counted_bytes(found, now) if word is QuotaWord.KEPT_BYTES else quota.counted_runs(found, now)
        _, quota = self._write_quota("put_quota", tenant, word, after.settled(found, fits=after.in_use <= room))
        return quota

    def _write_quota(self, verb: str, tenant: str, word: QuotaWord, write: QuotaWrite) -> tuple[bool, Quota]:
        """Whether a write was applied, and the quota as it is then."""
        row = RowWrite(table=RUNS, row={**usage_key(tenant, f"~{word}"), **write.changes}, only_if=write.only_if)
        applied, there = self._tables.write(verb, row, returning=True)
        return applied, Quota() if there is None else quota_of(there)

    def quota(self, tenant: str, word: QuotaWord) -> Quota | None:
        """What was counted last, and taken since; None: it was never counted. Raises Unavailable."""
        row = self._tables.get("quota", RUNS, **usage_key(tenant, f"~{word}"))
        return None if row is None else quota_of(row)

    def left(self, tenant: str, rate: AcceptedRate, now: int) -> int:
        """The tokens that are in the bucket (``now``: UTC ms), without those that processes have leased. Raises Unavailable."""
        row = self._tables.get("tokens_left", RUNS, **usage_key(tenant, f"{_RATE}{rate.word}"))
        return SharedBucket(rate, now).there(None if row is None or "until" not in row else int(row["until"]))

    def count(self, tenant: str) -> ScheduleCount | None:
        """The count of a tenant; None: it was never counted. Raises Unavailable."""
        row = self._tables.get("schedule_count", RUNS, **usage_key(tenant, COUNT))
        return None if row is None else count_of(row)

    def put_count(self, count: ScheduleCount) -> bool:
        """Put a count of this ``version`` over the one before it; False if that is another one. Raises Unavailable."""
        is_same = Compare("version", "=", count.version - 1) if count.version > 1 else Absent("version")
        write = RowWrite(table=RUNS, row=count_row(count), only_if=is_same, kind="put")
        applied, _ = self._tables.write("put_count", write)
        return applied


def _take_one(
    known: _Leases, tenant: str, word: RateWord | QuotaWord, most: int, now: int, ask: Callable[[int], tuple[int, int]]
) -> int:
    """Take one of what this process has leased, or after it has asked for more. Returns the milliseconds to wait. Fails open."""
    with known.lock:
        if most != known.most:
            known.most, known.lease.closed_until = most, 0
        wait = known.lease.take(now)
        if wait is not None:
            return wait
        wanted = known.lease.wants(most)
        try:
            taken, wait = ask(wanted)
        except QuarterjackError as problem:
            log.warning("limit.open", extra={"tenant": tenant, "limit": str(word), "error": str(problem)})
            known.lease.is_open = True
            return 0
        return known.lease.leased(now, taken, wait)


@reads("quota {owner}#{key}")
def quota_of(row: Mapping[str, Any]) -> Quota:
    """Raises Unreadable, TooNew."""
    return parse_quota(row)
