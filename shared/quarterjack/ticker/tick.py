"""One tick: go through the agenda's shards and handle the entries that are due within the look-ahead, by their kind."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from quarterjack import tracing
from quarterjack.concurrency.rate_limits import SOON, WriteBudget
from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import InvalidInput, Misconfigured, QuarterjackError
from quarterjack.fires.backpressure import BackpressureCheck
from quarterjack.fires.breakers import BreakerCheck, TickHints
from quarterjack.fires.chain import advance_chains
from quarterjack.fires.context import (
    LOOKAHEAD,
    NOTHING,
    PAGE,
    EntryCounts,
    FireContext,
    Handled,
    NoticeRound,
    TickCounts,
    failed_at,
    left,
    removed,
)
from quarterjack.fires.flow.wait_queue import check_queue
from quarterjack.fires.gates import admitted, plan_limit
from quarterjack.owner.backfill.control import look_after
from quarterjack.owner.schedules.stop import end_pause
from quarterjack.ports.services import Clock, Services
from quarterjack.stores.agenda import DuePage
from quarterjack.ticker.fan_out import FanOutConfig, ShardQueue
from quarterjack.ticker.run_timers import send_waiting_run, send_waiting_runs, watch_run
from quarterjack.undertaker.incidents import notify
from quarterjack.undertaker.overdue import watch_end
from quarterjack.undertaker.success_watch import watch_success
from quarterjack.values import replace
from quarterjack.worker.admission.turns import check_turns

log = logging.getLogger(__name__)

Timer = Callable[[AgendaEntry, FireContext], Handled]  # handles one entry


def dispatch(entries: Sequence[AgendaEntry], context: FireContext) -> TickCounts:
    """Handle entries of any kinds. An entry stays unless all of its work was done."""
    counts = TickCounts(agenda=EntryCounts(entries=len(entries)))
    chains = [entry for entry in entries if entry.kind is EntryKind.CHAIN]
    if chains:
        counts += advance_chains(chains, context)
    others = [entry for entry in entries if entry.kind is not EntryKind.CHAIN]
    runs = [entry for entry in others if entry.kind is EntryKind.RUN]
    done = frozenset[str]()
    if len(runs) > 1:
        done, sent = send_waiting_runs(runs, context)
        counts += sent
    timers = [entry for entry in others if entry.key not in done]
    # The notice of an incident goes before the timer that looks for its end.
    timers.sort(key=lambda entry: entry.kind is not EntryKind.NOTICE)
    if timers:
        context = replace(context, notices=NoticeRound())
    for entry in timers:
        counts += _run_timer(entry, context)
    return counts


def _run_timer(entry: AgendaEntry, context: FireContext) -> TickCounts:
    """Handle one timer. A failure is counted on its entry, which moves aside in the end, and stops no other entry."""
    try:
        handled = TIMERS[entry.kind](entry, context)
    except Exception as problem:  # noqa: BLE001 (no other entry stops)
        return failed_at(entry, problem)
    return handled.counts + (removed([entry], context.services) if handled.may_go else left(1))


TIMERS: dict[EntryKind, Timer] = {
    EntryKind.RUN: send_waiting_run,
    EntryKind.WATCH: watch_run,
    EntryKind.RESUME: end_pause,
    EntryKind.BACKFILL: look_after,
    EntryKind.TURN: check_turns,
    EntryKind.QUEUE: check_queue,
    EntryKind.NOTICE: notify,
    EntryKind.EXPECT: watch_success,
    EntryKind.OVERDUE: watch_end,
}


LOCK = 50 * SECOND  # the shard of a crashed ticker waits this long; the look-ahead covers it
MEASURED = 5  # minutes between two measurements of what waits
MAX_FAILURES = 10  # failures of its own after which an entry moves aside


@dataclass(kw_only=True)
class TickReport:
    """Counts of one tick, for the metrics."""

    now: int  # UTC ms at its start
    shards: int = 0  # read
    locked: int = 0  # left to another ticker
    unavailable: int = 0  # shards that could not be read to the end
    groups: int = 0  # groups of shards handed over to other invocations
    stopped: bool = False  # out of time before the end; the rest is still in the agenda
    behind: int = 0  # ms between the oldest entry past its time and now, of those that do not fail by themselves
    held: list[str] = field(default_factory=list)  # queues whose entries are held back
    broken: list[str] = field(default_factory=list)  # tenants of which an open circuit breaker held entries back
    # ms since the oldest ready entry of a shard (first) and queue was due; measured once in five minutes.
    ages: dict[tuple[int, str], int] = field(default_factory=dict)
    throttled: int = 0  # items that were throttled and retried more slowly
    handled: TickCounts = field(default_factory=TickCounts)

    @property
    def is_measured(self) -> bool:
        """Whether it is time for the figures that are measured once in MEASURED minutes: what waits, and how old entries are."""
        return self.now // MINUTE % MEASURED == 0


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

    ``holder`` names this ticker in the shards' locks. Raises InvalidInput for a shard that does not exist.
    """
    spread = spread or FanOutConfig()
    report, throttled_before = TickReport(now=clock()), spread.stats.throttled
    count = services.agenda.layout(fresh=True).shards
    if any(shard >= count for shard in spread.only or ()):
        raise InvalidInput("shards", spread.only, f"is beyond the agenda's {count}", "let the ticker cut its groups")
    first = report.now // MINUTE % count  # so that a tick that runs out of time does not always starve the same shards
    shards = (*range(first, count), *range(first)) if spread.only is None else spread.only
    deadline = report.now + budget
    write_budget = WriteBudget(spread.writes, start=report.now, budget=budget, wait=spread.wait)
    queue = ShardQueue(shards, spread, write_budget)
    with tracing.span("tick", trace):
        carried = tracing.header() or trace
        pressure, breakers = BackpressureCheck(services, clock), BreakerCheck(services, clock, TickHints(services))
        context = FireContext(
            services=services,
            clock=clock,
            trace=carried,
            write_budget=write_budget,
            gates=(pressure, breakers),
        )
        one = _Tick(context, report, queue, deadline=deadline, holder=holder)
        queue.go_through(one.run_shard)
        if not (report.stopped or report.unavailable):  # else something may be held in what was not read
            breakers.close_quiet()
    report.groups, report.throttled = queue.handed, spread.stats.throttled - throttled_before
    report.held, report.broken = pressure.held, breakers.tenants
    return report


class _Tick:
    """One tick in one process: its threads share the report."""

    def __init__(
        self,
        context: FireContext,
        report: TickReport,
        queue: ShardQueue,
        *,
        deadline: int,
        holder: str,
    ) -> None:
        self._context, self._report, self._queue = context, report, queue
        self._services, self._clock = context.services, context.clock
        self._deadline, self._holder = deadline, holder
        self._lock = threading.Lock()  # of the report

    def run_shard(self, shard: int) -> bool:
        """Handle one shard under its lock, if anything is due in it. A failing shard stops no other. False: time is up."""
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
            raise  # every shard would fail
        except Exception as problem:  # noqa: BLE001 (any failure: it is this shard's own)
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
        """The due entries that no gate holds back."""
        found = self._services.agenda.due(shard, upto=self._clock() + LOOKAHEAD, after=after, limit=PAGE)
        page = replace(found, entries=admitted(self._context.gates, found.entries))
        with self._lock:
            if held := len(found.entries) - len(page.entries):
                self._report.handled += TickCounts(agenda=EntryCounts(held=held))
            if after is None and self._report.is_measured:
                self._measure_ages(shard, found.entries)
            unlimited = (entry for entry in page.entries if plan_limit(self._context.gates, entry).until is None)
            in_time = (entry for entry in unlimited if not entry.failures)
            oldest = next(in_time, None)
            if oldest is not None:
                self._report.behind = max(self._report.behind, self._report.now - oldest.due)
        for key in page.newer:
            log.warning("entry.left", extra={"entry": key, "error": "it is of a later release"})
        for key in page.broken:
            log.error("entry.unreadable", extra={"shard": shard, "entry": key})
        soon = bool(page.entries) and page.entries[0].due < self._clock() + SOON
        self._queue.seen(len(page.entries), more=page.last is not None, soon=soon)
        return page

    def _measure_ages(self, shard: int, entries: Sequence[AgendaEntry]) -> None:
        for entry in entries:
            if entry.due < self._report.now:
                self._report.ages.setdefault((shard, entry.queue or DEFAULT_QUEUE), self._report.now - entry.due)

    def _drain(self, shard: int, page: DuePage) -> bool:
        """Handle all due entries; again from the start while chains were cut, so that a backlog drains within the tick.

        False if another ticker has taken the shard's lock, because this one stalled.
        """
        failed: set[str] = set()
        cut, renew = False, self._clock() + LOCK // 2
        while True:
            entries = [e for e in page.entries if e.key not in failed]
            by_rank = groupby(sorted(entries, key=_rank), key=_rank)  # the most urgent first, and of equal ones by time
            for place, (_, urgent) in enumerate(by_rank):
                if place and self._is_over():
                    return True
                handled = dispatch(list(urgent), self._context)
                failures = handled.agenda.failures
                failed |= {entry.key for entry, _ in failures}
                handled += _count_failures(failures, self._services, self._clock) if failures else NOTHING
                cut = cut or handled.schedules.cut > 0
                with self._lock:
                    self._report.handled += handled
            if (page.last is None and not cut) or self._is_over():
                return True
            if self._clock() >= renew:
                if not self._take(shard):
                    return False
                renew = self._clock() + LOCK // 2
            if page.last is None:
                cut = False
            page = self._page(shard, page.last)


def _rank(entry: AgendaEntry) -> int:
    return entry.priority.rank


def _count_failures(failures: Iterable[tuple[AgendaEntry, Exception]], services: Services, clock: Clock) -> TickCounts:
    """Count failures on their entries; after MAX_FAILURES an entry moves aside, with an alarm."""
    quarantined = 0
    for entry, problem in failures:
        reason = f"{type(problem).__name__}: {problem}"
        try:
            count = services.agenda.fail(entry)
            log.error("entry.failed", extra={"entry": entry.key, "failures": count, "error": reason})
            if count >= MAX_FAILURES:
                services.agenda.quarantine(entry, reason=reason, now=clock())
                quarantined += 1
                log.error("entry.quarantined", extra={"entry": entry.key})
        except QuarterjackError as refused:  # a malformed item, whose failures cannot be counted
            log.error("entry.not_counted", extra={"entry": entry.key, "error": str(refused)})
    return TickCounts(agenda=EntryCounts(quarantined=quarantined))
