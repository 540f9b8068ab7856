"""What a worker process has of concurrency caps: the slots that it took for its runs, one write for each cap and batch.

Only this process writes what it has, always as the whole number: a write that got no answer is corrected by the next one. The heartbeat
renews slots before leases. A slot whose lease may still be live, because nobody answered, is given back when that lease is over.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from zlib import crc32

from minutehand.concurrency.forks import HoldsLocks
from minutehand.errors import MinutehandError
from minutehand.fires.context import next_look
from minutehand.fires.lines import change_slots, look_after_line
from minutehand.ports.services import Clock, Services
from minutehand.state.lease import SKEW
from minutehand.state.tenants.slots import CapSlots, ConcurrencyCap, SlotHold

log = logging.getLogger(__name__)

_JITTER = 0.02  # seconds of a pause between two writes, times the number of the try, at the most


class _Lapsed(Exception):
    """The record has no slots of this process any more."""


class CapHolding(HoldsLocks):
    """What this process has of one cap."""

    def __init__(self, cap: ConcurrencyCap) -> None:
        self.cap = cap
        self.process = ""  # of its slots in the record
        self.count = 0  # of them
        self.until = 0  # UTC ms
        self.over = list[int]()  # of some of them: UTC ms from which their leases are over
        self.unwritten = False  # whether the record has more
        self.looked_after = 0  # UTC ms of the timer that was put for the line
        super().__init__()

    def _make_locks(self) -> None:
        self.lock = threading.Lock()  # held during requests: one at a time writes what this process has

    def forget(self, process: str = "") -> None:
        """Begin anew. What the record has under the present name is free when its time is over."""
        self.process, self.count, self.until, self.over, self.unwritten = process, 0, 0, [], False

    def prune(self, now: int) -> None:
        """Without slots whose leases are over."""
        left = [at for at in self.over if at >= now]
        self.unwritten = self.unwritten or len(left) < len(self.over)
        self.count -= len(self.over) - len(left)
        self.over = left


class SlotPool(HoldsLocks):
    """The slots of one process. Thread-safe."""

    def __init__(self) -> None:
        self._caps: dict[str, CapHolding] = {}
        super().__init__()

    def _make_locks(self) -> None:
        self._lock = threading.Lock()

    def of(self, cap: ConcurrencyCap) -> CapHolding:
        """What this process has of a cap."""
        with self._lock:
            holding = self._caps.setdefault(cap.id, CapHolding(cap))
        holding.cap = cap
        return holding

    def take(
        self, cap: ConcurrencyCap, runs: Sequence[tuple[str, bool]], name: str, services: Services, clock: Clock
    ) -> tuple[set[str], str]:
        """Take slots for runs, by id and whether each has waited in the line; and who got one, under which name.

        Raises Unavailable: what the record has too much of this process then, its next write corrects.
        """
        holding, got = self.of(cap), set[str]()
        with holding.lock:
            now = clock()
            if holding.until <= now:
                holding.forget(f"{name}~{now}")
            holding.prune(now)

            def edit(slots: CapSlots) -> CapSlots:
                nonlocal got
                if holding.count and holding.process not in slots.held:
                    holding.forget(f"{name}~{now}")
                after, got = slots.taken(holding.process, holding.count, runs, cap.most, now)
                return after

            holding.unwritten = True
            after = change_slots(cap, edit, services, clock, pause=partial(pause, services, holding.process))
            holding.unwritten = False
            holding.count += len(got)
            holding.until = after.held.get(holding.process, (0, 0))[1]
            return got, holding.process

    def give_back(self, holds: Iterable[tuple[SlotHold, int]], services: Services, clock: Clock) -> None:
        """Give slots back, each when its lease is over for sure (UTC ms; 0: now). Raises nothing: the next beat repeats it."""
        by_cap: dict[str, list[tuple[SlotHold, int]]] = defaultdict(list)
        for hold, over in holds:
            by_cap[hold.cap.id].append((hold, over))
        for own in by_cap.values():
            holding = self.of(own[0][0].cap)
            with holding.lock:
                ends = [over for hold, over in own if hold.process == holding.process]
                holding.over += [over for over in ends if over]
                holding.count -= sum(not over for over in ends)
                holding.unwritten = holding.unwritten or not all(ends)
                holding.prune(clock())
                self._write(holding, services, clock)

    def _write(self, holding: CapHolding, services: Services, clock: Clock) -> None:
        """Write what this process still has of a cap, if the record has more."""
        if not holding.unwritten:
            return
        try:
            wait = partial(pause, services, holding.process)
            change_slots(
                holding.cap, lambda slots: slots.kept(holding.process, holding.count), services, clock, pause=wait
            )
        except MinutehandError as problem:
            log.warning("slots.not_given_back", extra={"cap": holding.cap.id, "error": str(problem)})
        else:
            holding.unwritten = False

    def covers(self, hold: SlotHold, until: int) -> bool:
        """Whether a lease up to an instant (UTC ms) ends before its slot does."""
        holding = self.of(hold.cap)
        return holding.process == hold.process and until <= holding.until

    def renew(self, services: Services, now: int) -> None:
        """Renew the slots that runs have, and give back those whose leases are over. Raises nothing: what was not renewed lapses."""
        with self._lock:
            holdings = list(self._caps.values())
        for holding in holdings:
            with holding.lock:
                holding.prune(now)
                if holding.count > len(holding.over):
                    self._renew(holding, services, now)
                elif holding.until + SKEW >= now:
                    self._write(holding, services, lambda: now)

    def _renew(self, holding: CapHolding, services: Services, now: int) -> None:
        def edit(slots: CapSlots) -> CapSlots:
            if holding.process not in slots.held:
                raise _Lapsed
            return slots.renewed(holding.process, holding.count, now)

        try:
            after = change_slots(
                holding.cap, edit, services, lambda: now, pause=partial(pause, services, holding.process)
            )
        except _Lapsed:
            log.error("slots.lapsed", extra={"cap": holding.cap.id, "slots": holding.count})
            holding.forget()
        except Exception as problem:  # noqa: BLE001 (any failure: no lease is renewed beyond these slots)
            log.warning("slots.not_renewed", extra={"cap": holding.cap.id, "error": str(problem)})
        else:
            holding.until, holding.unwritten = after.held[holding.process][1], False

    def look_after(self, cap: ConcurrencyCap, services: Services, now: int) -> None:
        """Leave a timer for a cap's line, unless this process has left it already. Raises Unavailable."""
        holding, due = self.of(cap), next_look(now)
        if holding.looked_after != due:
            look_after_line(cap, services, due, now)
            holding.looked_after = due


def pause(services: Services, process: str, again: int) -> None:
    """Before write number ``again`` of slots that others write as well: for each process another while."""
    services.wait(_JITTER * again * (crc32(f"{process} {again}".encode()) % 1_000) / 1_000)
