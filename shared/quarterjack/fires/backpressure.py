"""Backpressure: entries whose messages would go to a queue that its workers do not drain stay in the agenda for a later tick.

    read the queues' depths ──► decide ──► write the hold log ──► hold back the entries of tenants whose runs wait, send all others

A queue that is held is held for the tenants whose own runs wait in it: a tenant whose last due runs have started goes on, and one of which
nothing is known sends a few entries a tick. Beyond ``Limits.full`` the queue is held for all.
Each queue is checked once a tick, when an entry for it is due, and each of its lanes by itself (``held_part``), so that what waits in one
holds back nothing of the others. A low entry that has aged is judged by the lane that it takes, the normal one; while its own lane is
held, its chain goes no further than what has aged (``limit``).
The hold log is written before an entry is held back, and a plan reads the log before it skips missed fires (``RecentHolds``): so no ticker
takes a fire that was held back for a missed one. If a depth cannot be
read or the log cannot be written, the entries are sent: sending is always correct. Held entries do not change, so a crash here only makes
runs late; of two tickers that decide at the same time, one writes the log and the other reads it.
Entries of chains and single runs are held. The messages of a backfill are bounded by its concurrency, and other timers send none. An owner
who submits a low run leaves it to the ticker while its lane is held (``RecentHolds``).
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from quarterjack.domain.policies import Priority
from quarterjack.domain.queue import DEFAULT_QUEUE, held_part, lane_for, part_named
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.domain.times import SECOND
from quarterjack.errors import QuarterjackError
from quarterjack.fires.gates import UNLIMITED, Gate, PlanLimit
from quarterjack.fires.waits import age_of, standings_of
from quarterjack.ports.queues import WorkQueue
from quarterjack.ports.services import Clock, Services
from quarterjack.state.backpressure import (
    HoldLog,
    QueueDepth,
    Standing,
    asks_for_age,
    excused,
    full,
    parse_hold_log,
    patience,
    reason_to_hold,
)
from quarterjack.stores.records import Record

log = logging.getLogger(__name__)

OWNER, KEY = "~quarterjack/~queues", "~pressure"  # no tenant's: `~` begins no name
_SENT = (EntryKind.CHAIN, EntryKind.RUN)  # kinds of entries that send messages
_NAMED = 10  # tenants that a log line names
_FRESH = 10 * SECOND  # the hold log is read again after this: fires count as missed only a minute after their time


class BackpressureCheck(Gate):
    """The decisions of one tick about its queues, by part (``held_part``). Thread-safe."""

    def __init__(self, services: Services, clock: Clock) -> None:
        self._services, self._clock = services, clock
        self._held: dict[str | None, bool] = {}  # by part, as far as they were checked
        self._full = set[str | None]()  # of these, those that are held for all tenants
        self._standings: dict[tuple[str | None, str], Standing] = {}  # by held part and tenant
        # Entries that were let go of tenants of which nothing is known, likewise.
        self._unproven = Counter[tuple[str | None, str]]()
        self._until: dict[str, int] = {}  # UTC ms, by the key of an aged chain's entry whose own lane is held
        self._checking = threading.Lock()

    def admit(self, entries: Sequence[AgendaEntry]) -> Sequence[AgendaEntry]:
        """The entries that may be handled now; the others are held back."""
        now, work = self._clock(), self._services.work
        parts = {entry.key: parts_of(entry, now, work) for entry in entries if entry.kind in _SENT}
        own = defaultdict[str | None, list[AgendaEntry]](list)
        for entry in entries:
            if entry.key in parts:
                own[parts[entry.key].own].append(entry)
        named = list(dict.fromkeys(part for each in parts.values() for part in each))
        if not all(part in self._held for part in named):
            with self._checking:
                new = [part for part in named if part not in self._held]
                held = self._full_parts(new, own) if new and self._services.limits.depth else ()
                self._held |= {part: part in held for part in new}
        if not any(self._held[part] for part in named):
            return entries
        with self._checking:
            for part in named:
                if self._held[part] and part not in self._full:
                    tenants = {entry.tenant for entry in entries if part in parts.get(entry.key, ())}
                    self._judge(part, tenants, own[part])
            return [entry for entry in entries if entry.key not in parts or self._admits(entry, parts[entry.key], now)]

    def limit(self, entry: AgendaEntry) -> PlanLimit:
        """While the own lane of an aged chain is held, its plan goes no further than the fires that have aged."""
        until = self._until.get(entry.key)
        return UNLIMITED if until is None else PlanLimit(until=until)

    def _admits(self, entry: AgendaEntry, parts: EntryParts, now: int) -> bool:
        if not self._may_go(parts.taken, entry.tenant):
            return False
        if parts.own != parts.taken and not self._may_go(parts.own, entry.tenant):
            self._until[entry.key] = now - self._services.work.low_age
        return True

    def _may_go(self, part: str | None, tenant: str) -> bool:
        key = part, tenant
        if not self._held[part]:
            return True
        if part in self._full or self._standings[key] is Standing.WAITS:
            return False
        if self._standings[key] is Standing.FLOWS:
            return True
        self._unproven[key] += 1
        return self._unproven[key] <= self._services.limits.unproven

    def _judge(self, part: str | None, tenants: Collection[str], own: Sequence[AgendaEntry]) -> None:
        """Find out what these tenants have waiting in a part that is held, as far as it is not known, by its ``own`` entries."""
        asked = {tenant for tenant in tenants if (part, tenant) not in self._standings}
        if not asked:
            return
        found = dict.fromkeys(asked, Standing.UNKNOWN)
        try:
            found |= standings_of(own, asked, self._services, self._clock())
        except Exception as problem:  # noqa: BLE001 (any failure: who is not known to wait is not held)
            log.warning("queue.tenants_not_looked_at", extra={"error": f"{type(problem).__name__}: {problem}"})
        self._standings |= {(part, tenant): standing for tenant, standing in found.items()}
        waiting = sorted(tenant for tenant, standing in found.items() if standing is Standing.WAITS)
        if waiting:
            name = {"queue": part or DEFAULT_QUEUE, "tenants": waiting[:_NAMED], "count": len(waiting)}
            log.warning("queue.tenants_held", extra=name)

    @property
    def held(self) -> list[str]:
        """Names of the parts that are held back."""
        return sorted(part or DEFAULT_QUEUE for part, held in self._held.items() if held)

    def _full_parts(
        self, parts: Collection[str | None], own: Mapping[str | None, Sequence[AgendaEntry]]
    ) -> Collection[str | None]:
        """The parts that are held back from now on."""
        try:
            loads = self._services.work.load(parts)
            for _ in range(2):  # if another ticker writes first, its log holds the same knowledge
                hold_log, version = _read(self._services)
                after = self._decide(hold_log, loads, own)
                record = Record(owner=OWNER, key=KEY, version=version + 1, body=after.body())
                if after is hold_log or self._services.records.write(record):
                    break
            else:
                after = _read(self._services)[0]
        except Exception as problem:  # noqa: BLE001 (any failure: sending is always correct)
            log.warning("queues.not_looked_at", extra={"error": f"{type(problem).__name__}: {problem}"})
            return ()
        _log_changes(hold_log, after, loads)
        for part, stripes in loads.items():
            load = full(stripes)
            if load is not None and load.depth >= self._services.limits.full:
                self._full.add(part)
                log.warning("queue.full", extra={"queue": part or DEFAULT_QUEUE, "depth": load.depth})
        # The entries of a part whose depth is unknown now are sent, although its period goes on: nothing would end the period.
        return [part for part in parts if after.of(part).now is not None and loads.get(part)]

    def _decide(
        self,
        hold_log: HoldLog,
        loads: dict[str | None, Sequence[QueueDepth]],
        own: Mapping[str | None, Sequence[AgendaEntry]],
    ) -> HoldLog:
        """The hold log with this tick's decisions; the same object if nothing changes."""
        services, now = self._services, self._clock()
        for part, stripes in loads.items():
            held, load = hold_log.of(part), full(stripes)
            if load is None:
                continue
            waits = patience(services.limits, held=held.now is not None)
            asks = asks_for_age(stripes, part_named(part)[1])
            age = age_of(own.get(part, ()), services, now, waits) if asks else None
            why = reason_to_hold(load, age, services.limits, held=held.now is not None)
            if why is not None and held.now is None:
                hold_log = hold_log.with_(part, held.begun(now, why, load.depth, age))
            elif why is None and held.now is not None:
                hold_log = hold_log.with_(part, held.ended(now))
        return hold_log


class EntryParts(NamedTuple):
    """Parts of an entry's queue."""

    taken: str | None  # that the run's message would take now
    own: str | None  # of the run's priority


def parts_of(entry: AgendaEntry, now: int, work: WorkQueue) -> EntryParts:
    """The parts of its queue that an entry of a chain or a single run is judged by."""
    lane = lane_for(entry.priority, entry.due, now, work.low_age)
    own = part_of(entry.queue, entry.priority, work)
    return EntryParts(own if lane is entry.priority else part_of(entry.queue, lane, work), own)


def part_of(queue: str | None, lane: Priority, work: WorkQueue) -> str | None:
    """The part of a queue that a lane is; a queue without lanes is not divided."""
    return held_part(queue, lane if lane in work.lanes_of(queue) else Priority.NORMAL)


def _log_changes(before: HoldLog, after: HoldLog, loads: Iterable[str | None]) -> None:
    """Log each queue whose hold begins or ends."""
    for queue in loads:
        was, held = before.of(queue).now, after.of(queue)
        name = {"queue": queue or DEFAULT_QUEUE}
        if held.now is not None and was is None:
            log.warning("queue.held", extra=name | {"reason": held.why, "depth": held.depth, "age_ms": held.age})
        elif held.now is None and was is not None:
            log.warning("queue.released", extra=name | {"held_since": was.since})


# The hold log.


def _read(services: Services) -> tuple[HoldLog, int]:
    """The hold log and its version. An unreadable log counts as empty, and the next write replaces it."""
    record = services.records.read(OWNER, KEY)
    if record is None:
        return HoldLog(), 0
    try:
        return parse_hold_log(record.body), record.version
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        log.error("queues.note_unreadable", extra={"error": f"{type(problem).__name__}: {problem}"})
        return HoldLog(), record.version


def read_hold_log(services: Services) -> HoldLog:
    """The hold periods of all queues. Raises Unavailable."""
    return _read(services)[0]


class RecentHolds(Gate):
    """The hold log, cached for _FRESH ms. A plan reads it before missed fires are skipped; it is the gate of an owner's calls."""

    def __init__(self, services: Services, clock: Clock) -> None:
        self._services, self._clock = services, clock
        self._log, self._read_at = HoldLog(), -_FRESH

    def excused(self, queue: str | None, priority: Priority) -> list[tuple[int, int | None]]:
        """The periods (UTC ms), in order of time, in which fires were held back: of their lane, and of the normal one, which may take them.

        Raises Unavailable.
        """
        hold_log = self._fresh()
        periods = [each for part in {held_part(queue, priority), queue} for each in excused(hold_log.of(part))]
        return sorted(periods, key=lambda each: each[0])

    def admit(self, entries: Sequence[AgendaEntry]) -> Sequence[AgendaEntry]:
        """The entries but those of low runs whose lane is held now."""
        return [entry for entry in entries if not self._holds_back(entry)]

    def _holds_back(self, entry: AgendaEntry) -> bool:
        part = part_of(entry.queue, entry.priority, self._services.work)
        if part == entry.queue or entry.priority is not Priority.LOW:
            return False
        try:
            return self._fresh().of(part).now is not None
        except QuarterjackError as problem:
            log.info("queues.holds_unread", extra={"error": str(problem)})
            return False

    def _fresh(self) -> HoldLog:
        now = self._clock()
        if not 0 <= now - self._read_at < _FRESH:
            self._log, self._read_at = read_hold_log(self._services), now
        return self._log
