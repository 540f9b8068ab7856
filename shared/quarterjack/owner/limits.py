"""What a tenant's limits say to an act: come back in so many seconds, or not at all. A tenant without limits costs no request more.

    throttling    delays      runs_per_second, changes_per_second         open if the table does not answer
                              waiting_runs                                open if the table or the history does not answer
    limiting      refuses     schedules, fires_per_hour, backfill_fires   closed: the act's own transaction needs the count
                              highest_priority                            closed: the profile is read before the act
                              kept_bytes                                  open if the table or the bucket does not answer

The count of schedules is changed in the transactions that arm them. It is not lowered by what ends, and may be behind for five seconds
after a limit was set: so it is taken anew, from the heads, before anybody is refused and once an hour by the next arming. Who has many
schedules and keeps asking for more is refused by the last count for some seconds: a refusal must not cost others more than an act.
"""

from __future__ import annotations

import logging

from quarterjack.domain.payload import PayloadOwner, size
from quarterjack.domain.policies import Priority
from quarterjack.domain.schedule import Head, ScheduleState, rule_of_head
from quarterjack.domain.tenants.limits import RateWord
from quarterjack.domain.times import HOUR, SECOND
from quarterjack.errors import ExpressionError, InvalidInput, LimitExceeded, Throttled, Unavailable
from quarterjack.fires.context import FireContext
from quarterjack.ports.services import Services
from quarterjack.state.tenants.quota import Quota, QuotaCount
from quarterjack.stores.tenants.schedule_counts import ScheduleCount, UsageChange
from quarterjack.timing import Rule
from quarterjack.timing.rule_fires import densest_hour

log = logging.getLogger(__name__)

COUNTED = HOUR  # age from which a count is taken anew
_FREE = (
    1_000  # heads that are read anew for each refusal; for each one more the last count holds for another millisecond
)
_RACES = 3  # counts that others may change meanwhile
_PAGE = 500  # heads of one query
_UNITS, _ENTRIES = 400, 10  # read units of one count; one more for so many runs that the limit allows
_COST = 20  # ms for which a read unit puts off the next count: 50 units a second at the most
_PAGES = 10  # requests of one count of bytes: about half a second


def throttle(tenant: str, word: RateWord, services: Services, now: int) -> Throttled | None:
    """Take a token of a tenant's rate at ``now`` (UTC ms); the error if there is none. Raises Unavailable: the profile is not known."""
    rate = services.tenants.governance(tenant, now).limits.rate(word)
    if rate is None:
        return None
    wait = services.usage.take(tenant, rate, now)
    if wait <= 0:
        return None
    seconds = wait / SECOND
    return Throttled(
        f"tenant {tenant!r} is throttled: {word}_per_second={rate.per_second:g}, {rate.burst} at once; nothing was done, "
        f"come back in {seconds:g} s",
        tenant=tenant,
        limit=f"{word}_per_second",
        per_second=rate.per_second,
        burst=rate.burst,
        seconds=seconds,
    )


def bounded(priority: Priority, tenant: str, services: Services, now: int) -> Priority:
    """A priority, or the highest one that the tenant may use if that is lower. Raises Unavailable."""
    highest = services.tenants.governance(tenant, now).limits.highest_priority
    return priority if highest is None or priority.rank >= highest.rank else highest


def check_priority(priority: Priority | None, tenant: str, services: Services, now: int) -> None:
    """Raises InvalidInput for a priority that somebody gave and the tenant may not use, Unavailable."""
    if priority is None or (highest := bounded(priority, tenant, services, now)) is priority:
        return
    problem = f"is above highest_priority={str(highest)!r}, the limit of tenant {tenant!r}"
    lower = ", ".join(repr(str(one)) for one in Priority if one.rank >= highest.rank)
    raise InvalidInput("priority", str(priority), problem, f"use {lower}, or have the limit raised")


def check_backfill(tenant: str, fires: int, context: FireContext) -> None:
    """Raises LimitExceeded if a backfill of so many fires is larger than a tenant's may be, Unavailable."""
    most = context.services.tenants.governance(tenant, context.clock()).limits.backfill_fires
    if most is not None and fires > most:
        raise exceeded(tenant, "backfill_fires", fires, most, "backfill a shorter interval at a time")


def arming(tenant: str, rule: Rule, before: Rule | None, context: FireContext, *, is_new: bool) -> UsageChange | None:
    """What arming a rule in place of another (None: there was none, or it had no further fire) adds to the tenant's count.

    None: nothing, or it is not limited. Raises LimitExceeded, Unavailable.
    """
    services, now = context.services, context.clock()
    limits = services.tenants.governance(tenant, now).limits
    if limits.schedules is None and limits.fires_per_hour is None:
        return None
    change = UsageChange(
        tenant=tenant,
        schedules=int(is_new),
        fires_per_hour=densest_hour(rule) - (0 if before is None else densest_hour(before)),
        most_schedules=limits.schedules,
        most_fires=limits.fires_per_hour,
    )
    if not change.schedules and not change.fires_per_hour:
        return None
    count = services.usage.count(tenant)
    if count is None or _is_old(count, now, fits=change.fits(count)):
        count = recount(change, services, now)
    _check(change, count)
    return change


def _is_old(count: ScheduleCount, now: int, *, fits: bool) -> bool:
    """Whether the schedules are counted anew."""
    age = now - count.counted_at
    return not 0 <= age < (COUNTED if fits else max(count.schedules - _FREE, 0))


def recount(change: UsageChange, services: Services, now: int) -> ScheduleCount:
    """Count the schedules of a tenant, for a change, and store it. Reads all its heads. Raises Unavailable.

    If others count or arm meanwhile, this count is not stored. It counts all the same if the change does not fit: what was read is there.
    If the change fits, it counts what the others have stored: the transaction that arms decides by that.
    """
    tenant = change.tenant
    for _ in range(_RACES):
        stored = services.usage.count(tenant)
        schedules = fires = 0
        for heads in _pages(tenant, services):
            schedules += len(heads)
            fires += sum(_fires_of(heads, services))
        version = 1 if stored is None else stored.version + 1
        count = ScheduleCount(tenant=tenant, schedules=schedules, fires_per_hour=fires, version=version, counted_at=now)
        if services.usage.put_count(count) or not change.fits(count):
            return count
        others = services.usage.count(tenant)
        if others is not None and change.fits(others):
            return others
    raise Unavailable(f"the schedules of tenant {tenant!r} could not be counted: others keep arming some; try again")


def _pages(tenant: str, services: Services) -> list[list[Head]]:
    found, cursor = list[list[Head]](), None
    while True:
        page = services.schedules.page(tenant, prefix="", limit=_PAGE, cursor=cursor)
        found.append([head for head in page.items if head.state is not ScheduleState.DELETED])
        cursor = page.cursor
        if cursor is None:
            return found


def _fires_of(heads: list[Head], services: Services) -> list[int]:
    """The densest hours of schedules that have further fires; paused ones too, so that a pause gives nothing away."""
    known = [head for head in heads if head.state is not ScheduleState.COMPLETED]
    long = {(head.owner, head.revision) for head in known if head.rule is None}
    answer = services.schedules.revisions(long) if long else None
    if answer is not None and answer.unanswered:
        raise Unavailable(f"{len(answer.unanswered)} rules could not be read; try again")
    found = []
    for head in known:
        revision = None if answer is None else answer.found.get((head.owner, head.revision))
        try:
            rule = rule_of_head(head) or (None if revision is None else revision.definition.rule)
        except ExpressionError as problem:  # as of a zone that is no more: it stops no other
            log.warning("limit.rule_unread", extra={"schedule": head.owner, "error": str(problem)})
            continue
        if rule is not None:
            found.append(densest_hour(rule))
    return found


def _check(change: UsageChange, count: ScheduleCount) -> None:
    """Raises LimitExceeded with the first limit that a change would not keep."""
    if change.fits(count):
        return
    schedules = count.schedules + change.schedules
    if change.schedules > 0 and change.most_schedules is not None and schedules > change.most_schedules:
        raise exceeded(change.tenant, "schedules", schedules, change.most_schedules, "delete some")
    fires, most = count.fires_per_hour + change.fires_per_hour, change.most_fires or 0
    raise exceeded(change.tenant, "fires_per_hour", fires, most, "let it fire less often, or delete others")


def exceeded(tenant: str, limit: str, value: int, most: int, what: str) -> LimitExceeded:
    """The error that says ``what`` frees something."""
    remedy = f"{what}, or ask an operator of the installation for more"
    return LimitExceeded(
        f"{limit}={value:,}: tenant {tenant!r} may have {most:,}; nothing was done; {remedy}",
        tenant=tenant,
        limit=limit,
        value=value,
        most=most,
        remedy=remedy,
        command=f"quarterjack tenants set {tenant} --limit {limit}={value}",
    )


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
