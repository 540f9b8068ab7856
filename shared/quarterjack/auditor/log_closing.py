"""Close the days of the audit log an hour after their end: shut the gates, hash the entries, chain the close to the last one, anchor it.

The gates are shut before the entries are read, so no entry comes after its close. The number of a close decides between two auditors.
A close is put into the archive's bucket as well, where there is one, and never in place of another object: this is its anchor. An
anchor of a close that the table does not have, or has otherwise, says that the record was changed. Then nothing more of that tenant is
closed, because a new close under the number of a removed one would hide it.
"""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from quarterjack.domain.audit import LATE, DayClose, anchor_key, anchors_of, root_of
from quarterjack.domain.times import DAY, HOUR
from quarterjack.errors import QuarterjackError, Unreadable
from quarterjack.ports.services import Clock, Services

log = logging.getLogger(__name__)

RECENT = 3  # days that are checked again, for a tenant whose first entry came late
OLDEST = 100  # days after which a day that no auditor has closed is left alone
_ANCHORED_FOR = 3 * HOUR  # closes are put into the bucket again for so long: an auditor may have died before it could
_LAST = 10  # closes that are read of a tenant with recent days only


class Contradicted(QuarterjackError):
    """An anchor in the bucket differs from the table: the audit log was changed."""


@dataclass(kw_only=True)
class ClosingReport:
    """What became of the days that could be closed: numbers of tenants' days."""

    closed: int = 0
    failed: int = 0  # not closed, because a service did not answer: the next audit tries again
    contradicted: int = 0  # not closed, because an anchor differs: until an operator has found the cause


def close_days(services: Services, *, clock: Clock, budget: int | None = None) -> ClosingReport:
    """Close all tenants' days that may be closed. A tenant that fails stops no other; the next audit tries again.

    Nothing is begun after ``budget`` ms. Raises Unavailable.
    """
    began = clock()
    last = (began - LATE) // DAY - 1
    settled = services.audit.done_days()
    report = ClosingReport()

    def is_over() -> bool:
        return budget is not None and clock() - began >= budget

    for day in (day for day in range(last - OLDEST + 1, last + 1) if day not in settled):
        through = _close_day(day, services, clock, is_over, report, recent=day > last - RECENT)
        if through and day <= last - RECENT:
            services.audit.mark_done(day)
    if report.closed:
        log.info("audit.closed", extra={"days": report.closed})
    return report


def _close_day(
    day: int, services: Services, clock: Clock, is_over: Callable[[], bool], report: ClosingReport, *, recent: bool
) -> bool:
    """Close a day of all tenants; whether that was all."""
    through = True
    for tenant in services.audit.tenants(day):
        if is_over():
            return False
        about = {"tenant": tenant, "day": day}
        try:
            report.closed += _close(tenant, day, services, clock, newest=_LAST if recent else None)
        except Contradicted as problem:
            through, report.contradicted = False, report.contradicted + 1
            log.error("audit.contradicted", extra={**about, "error": str(problem)})
        except QuarterjackError as problem:
            through, report.failed = False, report.failed + 1
            log.error("audit.not_closed", extra={**about, "error": str(problem)})
    return through


def _close(tenant: str, day: int, services: Services, clock: Clock, *, newest: int | None) -> bool:
    """Whether this call closed the day of a tenant."""
    known, now = _closes(tenant, services, newest=newest), clock()
    if same := [close for close in known if close.day == day]:
        _anchor([close for close in same if close.closed_at > now - _ANCHORED_FOR], services)
        return False
    services.audit.shut(tenant, day, now=now)
    entries = list(services.audit.entries(tenant, day))
    before = known[-1] if known else None
    number = 1 if before is None else before.number + 1
    if not _is_free(tenant, number, services):
        return False
    close = DayClose(
        tenant=tenant,
        number=number,
        day=day,
        entries=len(entries),
        root=root_of(entry.digest for entry in entries),
        previous="" if before is None else before.digest,
        closed_at=now,
    )
    if not services.audit.close(close):  # another auditor has used this number: the next audit checks it
        return False
    _anchor([close], services)
    return True


def _closes(tenant: str, services: Services, *, newest: int | None) -> list[DayClose]:
    """The newest closes of a tenant, or all. Raises Unreadable for a damaged one: it may be the close of the very day."""
    found = list[DayClose]()
    for each in services.audit.closes(tenant, newest=newest):
        if each.close is None:
            raise Unreadable(each.problem)
        found.append(each.close)
    return found


def _is_free(tenant: str, number: int, services: Services) -> bool:
    """Whether no close of this number was ever made; False: another auditor makes it now. Raises Contradicted.

    A close is in the table before its anchor is in the bucket, so an anchor without a close is of one that was removed.
    """
    found = next(iter(anchors(tenant, services, after=number - 1)), None)
    if found is None:
        return True
    newest = _closes(tenant, services, newest=1)
    if newest and found <= anchor_key(tenant, newest[-1].number):
        return False
    raise Contradicted(
        f"{found} is in the bucket, and close {number} of {tenant} is not in the table: it was removed, with all after it. Nothing more "
        f"is closed; see docs/how-to/audit.md"
    )


def anchors(tenant: str, services: Services, *, after: int = 0) -> Iterator[str]:
    """The keys of a tenant's anchors after that of the close ``after``, in the order of their numbers."""
    if not services.archive.is_on:
        return iter(())
    prefix = anchors_of(tenant)
    return services.archive.keys(prefix, after=anchor_key(tenant, after), before=f"{prefix}~")


def _anchor(closes: Sequence[DayClose], services: Services) -> None:
    """Put closes into the archive's bucket. Raises Unavailable, Misconfigured: the next audits try again; and Contradicted."""
    if not services.archive.is_on:
        return
    for close in closes:
        key, content = anchor_key(close.tenant, close.number), anchor_of(close)
        if not services.archive.put_new(key, content) and not _is_anchor(services.archive.get([key])[0], close):
            raise Contradicted(
                f"{key} differs from close {close.number} of {close.tenant}: one of the two was replaced"
            )


def _is_anchor(content: bytes | None, close: DayClose) -> bool:
    return content is None or document_of(content).get("digest") == close.digest


def document_of(content: bytes) -> Mapping[str, object]:
    """The close that an anchor tells, as JSON; nothing if it is not one."""
    try:
        found = json.loads(gzip.decompress(content))
    except (OSError, EOFError, ValueError, zlib.error):
        return {}
    return found if isinstance(found, dict) else {}


def anchor_of(close: DayClose) -> bytes:
    """The object of a close: gzipped JSON, equal for equal closes."""
    return gzip.compress(json.dumps(close.document() | {"digest": close.digest}, sort_keys=True).encode(), mtime=0)
