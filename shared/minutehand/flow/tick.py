"""Tick: go through the agenda's shards and handle what is due within the look-ahead, oldest first."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from minutehand.errors import MinutehandError, Misconfigured
from minutehand.flow.handled import Handled
from minutehand.flow.ports import Clock, DuePage, Services
from minutehand.flow.steps import LOOKAHEAD
from minutehand.flow.timers import handle_any
from minutehand.model.moment import MINUTE, SECOND

log = logging.getLogger(__name__)

PAGE = 500  # entries read at a time: bounds memory, fills the batches of 100 revisions and 25 claims
LOCK = 50 * SECOND  # a crashed ticker's shard waits this long; the look-ahead covers it
MAX_FAILURES = 10  # failures of its own after which an entry moves aside


@dataclass(kw_only=True)
class TickReport:
    """What one tick did, for the metrics."""

    now: int  # UTC ms at its start
    shards: int = 0  # gone through
    locked: int = 0  # left to another ticker
    unavailable: int = 0  # shards that could not be read to the end
    stopped: bool = False  # out of time before the end; what is left is still there
    behind: int = 0  # ms between the oldest entry past its time and now
    handled: Handled = field(default_factory=Handled)


def tick(
    services: Services, *, clock: Clock, holder: str, budget: int = 50 * SECOND, trace: str | None = None
) -> TickReport:
    """One tick over all shards, within ``budget`` ms. ``holder`` names this ticker in the shards' locks."""
    report = TickReport(now=clock())
    deadline = report.now + budget
    shards = services.agenda.shards(fresh=True)
    first = report.now // MINUTE % shards  # so that running out of time does not always starve the same shards
    for shard in (*range(first, shards), *range(first)):
        if clock() >= deadline:
            report.stopped = True
            break
        _shard(shard, services, clock, deadline, holder, trace, report)
    return report


def _shard(
    shard: int, services: Services, clock: Clock, deadline: int, holder: str, trace: str | None, report: TickReport
) -> None:
    """One shard under its lock, if anything is due in it; a failing one does not stop the others."""
    try:
        first = _page(shard, services, clock, None, report)
        report.shards += 1
        if not first.entries and first.last is None:
            return
        if not services.agenda.lock(shard, holder=holder, now=clock(), until=clock() + LOCK):
            report.locked += 1
            return
        _drain(shard, first, services, clock, deadline, trace, report)
        services.agenda.unlock(shard, holder=holder)
    except Misconfigured:
        raise  # it is so for every shard
    except Exception as problem:  # noqa: BLE001 (whatever it is, it is this shard's)
        report.unavailable += 1
        log.warning("tick.shard_failed", extra={"shard": shard, "error": f"{type(problem).__name__}: {problem}"})


def _page(shard: int, services: Services, clock: Clock, after: str | None, report: TickReport) -> DuePage:
    page = services.agenda.due(shard, upto=clock() + LOOKAHEAD, after=after, limit=PAGE)
    if page.entries:
        report.behind = max(report.behind, report.now - page.entries[0].due)
    for key in page.newer:
        log.warning("entry.left", extra={"entry": key, "error": "it is of a later release"})
    for key in page.broken:
        log.error("entry.unreadable", extra={"shard": shard, "entry": key})
    return page


def _drain(
    shard: int, page: DuePage, services: Services, clock: Clock, deadline: int, trace: str | None, report: TickReport
) -> None:
    """Page through what is due; again from the start while chains were cut, so that a backlog drains within the tick."""
    failed: set[str] = set()
    cut = False
    while True:
        handled = handle_any([e for e in page.entries if e.key not in failed], services, clock, trace=trace)
        failed |= {entry.key for entry, _ in handled.failures}
        _count_failures(handled, services, clock)
        cut = cut or handled.cut > 0
        report.handled.add(handled)
        if page.last is None and not cut:
            return
        if clock() >= deadline:
            report.stopped = True
            return
        if page.last is None:
            cut = False
        page = _page(shard, services, clock, page.last, report)


def _count_failures(handled: Handled, services: Services, clock: Clock) -> None:
    """Count failures on the entries themselves; after MAX_FAILURES one moves aside, with an alarm."""
    for entry, problem in handled.failures:
        handled.failed += 1
        reason = f"{type(problem).__name__}: {problem}"
        try:
            count = services.agenda.fail(entry)
            log.error("entry.failed", extra={"entry": entry.key, "failures": count, "error": reason})
            if count >= MAX_FAILURES:
                services.agenda.quarantine(entry, reason=reason, now=clock())
                handled.quarantined += 1
                log.error("entry.quarantined", extra={"entry": entry.key})
        except MinutehandError as refused:  # an item so odd that its failures cannot even be counted
            log.error("entry.not_counted", extra={"entry": entry.key, "error": str(refused)})
