"""What a tenant may have at a time of what nobody writes when it ends or goes: runs that have not ended, bytes in the bucket.

    waiting_runs   throttles: runs end by themselves     open if the table or the history does not answer
    kept_bytes     refuses: nothing goes before its retention is over      open if the table or the bucket does not answer

``state/tenants/quota.py`` says when they are counted. Runs are counted by the history's book of open runs, the latest first, bytes by a
listing of the tenant's objects, some pages at a time.
"""

from __future__ import annotations

import logging

from quarterjack.domain.payload import PayloadOwner, size
from quarterjack.domain.times import SECOND
from quarterjack.errors import Throttled
from quarterjack.fires.context import FireContext
from quarterjack.owner.limits import exceeded
from quarterjack.ports.services import Services
from quarterjack.state.tenants.quota import Quota, QuotaCount

log = logging.getLogger(__name__)

_UNITS, _ENTRIES = 400, 10  # read units of one count; one more for so many runs that the limit allows
_COST = 20  # ms for which a read unit puts off the next count: 50 units a second at the most
_PAGES = 10  # requests of one count of bytes: about half a second


def take_place(tenant: str, services: Services, now: int, *, has_history: bool) -> Throttled | None:
    """Take a place of a run that will be accepted at ``now`` (UTC ms); the error if there is none. Raises Unavailable: no profile."""
    most = services.tenants.governance(tenant, now).limits.waiting_runs
    if most is None:
        return None
    if not has_history:
        log.warning("limit.open", extra={"tenant": tenant, "limit": "waiting_runs", "error": "QUARTERJACK_HISTORY=off"})
        return None

    wait = services.usage.take_place(tenant, most, now, lambda quota: _count_runs(tenant, services, quota, now, most))
    if wait <= 0:
        return None
    seconds = wait / SECOND
    return Throttled(
        f"tenant {tenant!r} is throttled: waiting_runs={most:,}, and as many of its runs have not ended; nothing was done, "
        f"come back in {seconds:g} s, when they are counted anew",
        tenant=tenant,
        limit="waiting_runs",
        most=most,
        seconds=seconds,
    )


def put_payload(whose: PayloadOwner, text: str, context: FireContext) -> str:
    """Store a large payload and return its key. Raises LimitExceeded, InvalidInput (there is no bucket), Unavailable."""
    services, now = context.services, context.clock()
    tenant = str(whose).partition("/")[0]
    most = None if context.caller.is_system else services.tenants.governance(tenant, now).limits.kept_bytes
    if most is not None:
        length = size(text)
        value = services.usage.take_bytes(
            tenant, length, most, now, lambda quota: _count_bytes(tenant, services, quota)
        )
        if value is not None:
            what = f"of these {length:,} are new; send less than 64 KB and keep the rest elsewhere, or wait until the retention is over"
            raise exceeded(tenant, "kept_bytes", value, most, what)
    return services.payloads.put(whose, text)


def _count_runs(tenant: str, services: Services, quota: Quota, now: int, most: int) -> QuotaCount:
    from quarterjack.history.recent import count_open  # noqa: PLC0415 (who has no such limit loads no history)
    from quarterjack.stores.history.pages import ReadMeter  # noqa: PLC0415 (as above)

    meter, units = ReadMeter(), _UNITS + most // _ENTRIES
    since, taken = quota.window(now)
    found = count_open(
        tenant,
        since=since,
        now=now,
        most=most,
        coming=quota.taken - taken,
        services=services,
        meter=meter,
        is_over=lambda: meter.units >= units,
    )
    return QuotaCount(in_use=found.open, seen=found.seen, cost=_COST * round(meter.units))


def _count_bytes(tenant: str, services: Services, quota: Quota) -> QuotaCount:
    """Some pages of the listing, from where the last count stopped."""
    cursor, found, seen, objects = quota.cursor, 0, 0, 0
    for _ in range(_PAGES):
        page = services.payloads.kept(tenant, after=cursor, since=quota.since)
        cursor, found, seen = page.cursor, found + page.bytes, seen + page.recent
        objects += page.objects
        if cursor is None:
            break
    return QuotaCount(in_use=found, seen=seen, cost=objects, cursor=cursor)
