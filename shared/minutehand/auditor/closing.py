"""Close the audit's days, one hour after their end: shut the gates, hash the lines, chain the close to the one before, anchor it.

The gates are shut before the lines are read, so no line comes after its close. The number of a close decides between two auditors.
A close is put into the archive's bucket as well, where there is one: a bucket with Object Lock keeps it from everybody.
"""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable, Sequence

from minutehand.domain.audit import LATE, DayClose, anchor_key, root_of
from minutehand.domain.times import DAY, HOUR
from minutehand.errors import MinutehandError
from minutehand.ports.services import Clock, Services

log = logging.getLogger(__name__)

RECENT = 3  # days that are looked at again, for a tenant whose first line came late
OLDEST = 100  # days after which a day that no auditor has closed is left alone
_ANCHORED_FOR = 3 * HOUR  # closes are put into the bucket again for so long: an auditor may have died before it could
_LAST = 10  # closes that are read of a tenant with recent days only


def close_days(services: Services, *, clock: Clock, budget: int | None = None) -> int:
    """Close all tenants' days that may be closed; how many. A tenant that fails stops no other; the next audit tries again.

    Nothing is begun after ``budget`` ms. Raises Unavailable.
    """
    began = clock()
    last = (began - LATE) // DAY - 1
    settled = services.audit.done_days()
    closed = 0

    def is_over() -> bool:
        return budget is not None and clock() - began >= budget

    for day in (day for day in range(last - OLDEST + 1, last + 1) if day not in settled):
        count, through = _close_day(day, services, clock, is_over, recent=day > last - RECENT)
        closed += count
        if through and day <= last - RECENT:
            services.audit.mark_done(day)
    if closed:
        log.info("audit.closed", extra={"days": closed})
    return closed


def _close_day(
    day: int, services: Services, clock: Clock, is_over: Callable[[], bool], *, recent: bool
) -> tuple[int, bool]:
    """Close a day of all tenants: how many, and whether that was all."""
    closed, through = 0, True
    for tenant in services.audit.tenants(day):
        if is_over():
            return closed, False
        try:
            closed += _close(tenant, day, services, clock, newest=_LAST if recent else None)
        except MinutehandError as problem:
            through = False
            log.error("audit.not_closed", extra={"tenant": tenant, "day": day, "error": str(problem)})
    return closed, through


def _close(tenant: str, day: int, services: Services, clock: Clock, *, newest: int | None) -> bool:
    """Whether this call closed the day of a tenant."""
    known, now = services.audit.closes(tenant, newest=newest), clock()
    if any(each.close.day == day for each in known):
        _anchor(
            [each.close for each in known if each.close.day == day and each.close.closed_at > now - _ANCHORED_FOR],
            services,
        )
        return False
    services.audit.shut(tenant, day, now=now)
    lines = list(services.audit.lines(tenant, day))
    before = known[-1].close if known else None
    close = DayClose(
        tenant=tenant,
        number=1 if before is None else before.number + 1,
        day=day,
        lines=len(lines),
        root=root_of(line.digest for line in lines),
        previous="" if before is None else before.digest,
        closed_at=now,
    )
    if not services.audit.close(close):  # another auditor has put this number: look again in the next audit
        return False
    _anchor([close], services)
    return True


def _anchor(closes: Sequence[DayClose], services: Services) -> None:
    """Put closes into the archive's bucket. Raises Unavailable, Misconfigured: the next audits try again."""
    if closes and services.archive.is_on:
        services.archive.put({anchor_key(each.tenant, each.number): anchor_of(each) for each in closes})


def anchor_of(close: DayClose) -> bytes:
    """The object of a close: gzipped JSON, equal for equal closes."""
    return gzip.compress(json.dumps(close.document() | {"digest": close.digest}, sort_keys=True).encode(), mtime=0)
