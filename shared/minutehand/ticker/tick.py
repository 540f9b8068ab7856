"""Tick: go through the agenda's shards and handle what is due within the look-ahead, oldest first.

A tick may be spread over threads and over invocations (``fan``). None of them waits for another, each shard has one of them by its lock,
and what one leaves, because its time is up or it died, is still there.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field, replace

from minutehand.concurrency.write_budget import SOON, WriteBudget
from minutehand.domain.times import MINUTE, SECOND
from minutehand.errors import InvalidInput, MinutehandError, Misconfigured
from minutehand.fires.backpressure import BackpressureCheck
from minutehand.fires.context import FireContext
from minutehand.fires.plan import LOOKAHEAD
from minutehand.fires.tick_counts import TickCounts
from minutehand.ports.agenda import DuePage
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.ticker.dispatch import dispatch
from minutehand.ticker.fan_out import FanOutConfig, ShardQueue

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
    groups: int = 0  # of shards that were handed over to other invocations
    stopped: bool = False  # out of time before the end; what is left is still there
    behind: int = 0  # ms between the oldest entry past its time and now
    held: list[str] = field(default_factory=list)  # queues whose entries are held back
    throttled: int = 0  # items that were refused for lack of capacity and asked for again, more slowly
    handled: TickCounts = field(default_factory=TickCounts)


def tick(
    services: Services,
    *,
    clock: Clock,
    holder: str,
    budget: int = 50 * SECOND,
    trace: str | None = None,
    spread: FanOutConfig | None = None,
) -> TickReport:
    """One tick over all shards, or over the group that ``spread`` names, within ``budget`` ms.

    ``holder`` names this ticker in the shards' locks. Raises InvalidInput for a group with a shard that there is not.
    """
    spread = spread or FanOutConfig()
    report, held_back = TickReport(now=clock()), spread.stats.throttled
    count = services.agenda.shards(fresh=True)
    if any(shard >= count for shard in spread.only or ()):
        raise InvalidInput("shards", spread.only, f"is beyond the agenda's {count}", "let the ticker cut its groups")
    first = report.now // MINUTE % count  # so that running out of time does not always starve the same shards
    shards = (*range(first, count), *range(first)) if spread.only is None else spread.only
    deadline = report.now + budget
    write_budget = WriteBudget(spread.writes, start=report.now, budget=budget, wait=spread.wait)
    shares = ShardQueue(shards, spread, write_budget)
    context = FireContext(services=services, clock=clock, trace=trace, write_budget=write_budget)
    one = _Tick(context, report, shares, deadline=deadline, holder=holder)
    shares.go_through(one.shard)
    report.groups, report.throttled = shares.handed, spread.stats.throttled - held_back
    report.held = one.pressure.held
    return report


class _Tick:
    """One tick in one process: its threads share the report."""

    def __init__(
        self,
        context: FireContext,
        report: TickReport,
        shares: ShardQueue,
        *,
        deadline: int,
        holder: str,
    ) -> None:
        self._context, self._report, self._shares = context, report, shares
        self._services, self._clock = context.services, context.clock
        self._deadline, self._holder = deadline, holder
        self.pressure = BackpressureCheck(context.services, context.clock)
        self._lock = threading.Lock()  # of the report

    def shard(self, shard: int) -> bool:
        """One shard under its lock, if anything is due in it; a failing one does not stop the others. False: time is up."""
        if self._is_over():
            return False
        report = self._report
        try:
            first = self._page(shard, None)
            with self._lock:
                report.shards += 1
            due = first.entries or first.last is not None
            if due and self._take(shard) and self._drain(shard, first):
                self._services.agenda.unlock(shard, holder=self._holder)
        except Misconfigured:
            raise  # it is so for every shard
        except Exception as problem:  # noqa: BLE001 (whatever it is, it is this shard's)
            with self._lock:
                report.unavailable += 1
            log.warning("tick.shard_failed", extra={"shard": shard, "error": f"{type(problem).__name__}: {problem}"})
        return True

    def _is_over(self) -> bool:
        over = self._clock() >= self._deadline
        self._report.stopped = self._report.stopped or over
        return over

    def _take(self, shard: int) -> bool:
        """Take or renew the shard's lock; False while another ticker has it."""
        now = self._clock()
        taken = self._services.agenda.lock(shard, holder=self._holder, now=now, until=now + LOCK)
        if not taken:
            with self._lock:
                self._report.locked += 1
        return taken

    def _page(self, shard: int, after: str | None) -> DuePage:
        """What is due and not held back."""
        found = self._services.agenda.due(shard, upto=self._clock() + LOOKAHEAD, after=after, limit=PAGE)
        page = replace(found, entries=self.pressure.admit(found.entries))
        with self._lock:
            self._report.handled.held += len(found.entries) - len(page.entries)
            if page.entries:
                self._report.behind = max(self._report.behind, self._report.now - page.entries[0].due)
        for key in page.newer:
            log.warning("entry.left", extra={"entry": key, "error": "it is of a later release"})
        for key in page.broken:
            log.error("entry.unreadable", extra={"shard": shard, "entry": key})
        soon = bool(page.entries) and page.entries[0].due < self._clock() + SOON
        self._shares.seen(len(page.entries), more=page.last is not None, soon=soon)
        return page

    def _drain(self, shard: int, page: DuePage) -> bool:
        """Page through what is due; again from the start while chains were cut, so that a backlog drains within the tick.

        False if another ticker has taken the shard over meanwhile: this one had stalled.
        """
        failed: set[str] = set()
        cut, renew = False, self._clock() + LOCK // 2
        while True:
            handled = dispatch([e for e in page.entries if e.key not in failed], self._context)
            failed |= {entry.key for entry, _ in handled.failures}
            _count_failures(handled, self._services, self._clock)
            cut = cut or handled.cut > 0
            with self._lock:
                self._report.handled.add(handled)
            if (page.last is None and not cut) or self._is_over():
                return True
            if self._clock() >= renew:
                if not self._take(shard):
                    return False
                renew = self._clock() + LOCK // 2
            if page.last is None:
                cut = False
            page = self._page(shard, page.last)


def _count_failures(handled: TickCounts, services: Services, clock: Clock) -> None:
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
