"""Backpressure: entries whose messages would go to a queue that its workers do not drain stay in the agenda for a later tick.

    look at the queues that are named ──► decide ──► note the spell ──► hold its entries back, send all others

Each queue is looked at once a tick, when something is due for it. The note comes before anything is held, and what is planned is held
against the note before anything is passed over (``excuses``): so a fire that was held back is never taken for one that was missed, by
whichever ticker. What cannot be looked at or noted is not held: sending is always right. Held entries stay as they are, so whoever
dies here changes nothing but lateness; two tickers that decide at once write one note, the other reads it.
Chains and single runs are held. What a backfill sends is bounded by its concurrency, and timers that send nothing to a queue go on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Sequence

from minutehand.domain.agenda_entry import AgendaEntry, EntryKind
from minutehand.domain.freeze import freeze_key
from minutehand.domain.queue import DEFAULT_QUEUE
from minutehand.domain.run import RunState
from minutehand.domain.schedule import Revision
from minutehand.domain.times import SECOND
from minutehand.ports.clock import Clock
from minutehand.ports.records import Record
from minutehand.ports.services import Services
from minutehand.state.backpressure import (
    HoldLog,
    QueueDepth,
    asks_for_age,
    excused,
    full,
    hold_log_of,
    patience,
    reason_to_hold,
)

log = logging.getLogger(__name__)

OWNER, KEY = "~minutehand/~queues", "~pressure"  # no tenant's: `~` begins no name
_SENT = (EntryKind.CHAIN, EntryKind.RUN)  # kinds whose entries send messages as they are handled
_SAMPLE = 5  # schedules of a queue whose last run is looked at for how long it waits
_FRESH = (
    10 * SECOND
)  # for so long what was read of spells is as good as new: fires are judged a minute after their time


class BackpressureCheck:
    """The queues as one tick sees them, its threads among them."""

    def __init__(self, services: Services, clock: Clock) -> None:
        self._services, self._clock = services, clock
        self._held: dict[str | None, bool] = {}  # the queues that were looked at
        self._looking = threading.Lock()

    def admit(self, entries: Sequence[AgendaEntry]) -> Sequence[AgendaEntry]:
        """The entries that may be handled now; the others are held back."""
        named = {entry.queue for entry in entries if entry.kind in _SENT}
        if not named <= self._held.keys():
            with self._looking:
                self._look(named - self._held.keys(), entries)
        if not any(self._held.values()):
            return entries
        return [entry for entry in entries if entry.kind not in _SENT or not self._held[entry.queue]]

    @property
    def held(self) -> list[str]:
        """Names of the queues that are held back."""
        return sorted(queue or DEFAULT_QUEUE for queue, held in self._held.items() if held)

    def _look(self, queues: Collection[str | None], entries: Sequence[AgendaEntry]) -> None:
        """Decide about queues that were not looked at yet."""
        held = self._find_out(queues, entries) if queues and self._services.limits.depth else ()
        self._held |= {queue: queue in held for queue in queues}

    def _find_out(self, queues: Collection[str | None], entries: Sequence[AgendaEntry]) -> Collection[str | None]:
        """Which of these queues are held back from now on."""
        try:
            loads = self._services.work.load(queues)
            for _ in range(2):  # somebody else may write first, and then knows as much as we do
                book, version = _read(self._services)
                after = self._decide(book, loads, entries)
                if after is book or _write(after, version, self._services):
                    break
            else:
                after = _read(self._services)[0]
        except Exception as problem:  # noqa: BLE001 (whatever it is, nothing must wait for it)
            log.warning("queues.not_looked_at", extra={"error": f"{type(problem).__name__}: {problem}"})
            return ()
        _tell(book, after, loads)
        # What cannot be counted now is sent, although its spell goes on: nobody would see its end.
        return [queue for queue in queues if after.of(queue).now is not None and loads.get(queue)]

    def _decide(
        self, book: HoldLog, loads: dict[str | None, Sequence[QueueDepth]], entries: Sequence[AgendaEntry]
    ) -> HoldLog:
        """The book as it should be; the same where nothing changes."""
        services, now = self._services, self._clock()
        for queue, stripes in loads.items():
            held, load = book.of(queue), full(stripes)
            if load is None:
                continue
            waits = patience(services.limits, held=held.now is not None)
            age = _age(queue, entries, services, now, waits) if asks_for_age(stripes) else None
            why = reason_to_hold(load, age, services.limits, held=held.now is not None)
            if why is not None and held.now is None:
                book = book.with_(queue, held.begun(now, why, load.depth, age))
            elif why is None and held.now is not None:
                book = book.with_(queue, held.ended(now))
        return book


def _tell(before: HoldLog, after: HoldLog, loads: Iterable[str | None]) -> None:
    """A line for each queue that begins or ceases to be held back."""
    for queue in loads:
        was, held = before.of(queue).now, after.of(queue)
        name = {"queue": queue or DEFAULT_QUEUE}
        if held.now is not None and was is None:
            log.warning("queue.held", extra=name | {"reason": held.why, "depth": held.depth, "age_ms": held.age})
        elif held.now is None and was is not None:
            log.warning("queue.released", extra=name | {"held_since": was.since})


def _age(queue: str | None, entries: Sequence[AgendaEntry], services: Services, now: int, waits: int) -> int | None:
    """For how long (ms) runs of the queue's schedules have waited that are due for ``waits`` ms; None unless most of the sampled do.

    The ledger tells it, not SQS: the age of a queue's oldest message is that of a job that has been running for an hour.
    """
    chains = [entry.id for entry in entries if entry.kind is EntryKind.CHAIN and entry.queue == queue][:_SAMPLE]
    keys = {
        (owner, int(number))
        for owner, _, number in (identity.rpartition("#") for identity in chains)
        if number.isdigit()
    }
    tenants = {freeze_key(owner.partition("/")[0]) for owner, _ in keys}
    answer = services.schedules.revisions(keys | tenants)
    asked = [
        revision for revision in answer.found.values() if _tells(revision) and revision.tenant not in answer.frozen
    ]
    waiting = []
    for revision in asked:
        last = next((run for run in services.ledger.latest(revision.owner, upto=now - waits) if run.ref.is_fire), None)
        if last is not None and last.state is RunState.QUEUED:
            waiting.append(now - last.due)
    return min(waiting) if len(waiting) * 2 > len(asked) else None


def _tells(revision: Revision) -> bool:
    """Whether a run of it that is QUEUED waits for a worker, and not for others of its schedule."""
    return not revision.definition.options.is_exclusive


# The note.


def _read(services: Services) -> tuple[HoldLog, int]:
    """What is remembered, and its version. What cannot be read is nothing, and the next note replaces it."""
    record = services.records.read(OWNER, KEY)
    if record is None:
        return HoldLog(), 0
    try:
        return hold_log_of(record.body), record.version
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        log.error("queues.note_unreadable", extra={"error": f"{type(problem).__name__}: {problem}"})
        return HoldLog(), record.version


def _write(book: HoldLog, version: int, services: Services) -> bool:
    return services.records.write(Record(owner=OWNER, key=KEY, version=version + 1, body=book.body()))


def read_hold_log(services: Services) -> HoldLog:
    """All that is remembered of queues that are or were held back. Raises Unavailable."""
    return _read(services)[0]


class HoldExcuses:
    """The spells by which fires are excused, read when something is about to be passed over and kept for a moment."""

    def __init__(self, services: Services, clock: Clock) -> None:
        self._services, self._clock = services, clock
        self._book, self._read_at = HoldLog(), -_FRESH

    def of(self, queue: str | None) -> list[tuple[int, int | None]]:
        """Those of a queue, in order of time. Raises Unavailable."""
        now = self._clock()
        if not 0 <= now - self._read_at < _FRESH:
            self._book, self._read_at = read_hold_log(self._services), now
        return excused(self._book.of(queue))
