"""The next runs of a wait queue: for which of its entries a message may be sent, and which are not needed any more."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from quarterjack.domain.run import WAITING, AgendaEntry, RunRow, RunState
from quarterjack.fires.context import FAR
from quarterjack.ports.services import Clock, Services
from quarterjack.state.lease import has_live_lease
from quarterjack.state.tenants.caps import ConcurrencyCap
from quarterjack.values import replace

PAGE = 100  # entries of a wait queue that are read at once
# Their letter is sent after their end: a message makes its worker send it.
_REPORTED = (RunState.LOST, RunState.EXPIRED)
_PAGES = 10  # of entries whose runs have ended, before the rest is left to the next check

QueueEntry = tuple[AgendaEntry, RunRow]


@dataclass(frozen=True)
class NextRuns:
    """Of a wait queue."""

    going: list[QueueEntry]  # for which permits are kept
    has_more: bool


def next_runs(cap: ConcurrencyCap, sent: Collection[str], room: int, services: Services, clock: Clock) -> NextRuns:
    """Up to ``room`` entries of a cap's wait queue whose runs wait and have no message on its way. Unneeded entries are removed."""
    going, has_more = list[QueueEntry](), False
    for queue in cap.wait_queues:
        if len(going) == room:
            return NextRuns(going, has_more=True)
        found = _next_in(queue, sent, room - len(going), services, clock)
        going, has_more = [*going, *found.going], has_more or found.has_more
    return NextRuns(going, has_more=has_more)


def _next_in(queue: str, sent: Collection[str], room: int, services: Services, clock: Clock) -> NextRuns:
    """The same of one partition."""
    going, after, chosen = list[QueueEntry](), None, {*sent}
    for number in range(_PAGES):
        limit = PAGE if number else min(PAGE, room + len(sent) + 1)  # more only where the first ones have ended
        page = services.agenda.due(queue, upto=FAR, after=after, limit=limit)
        entries = [entry for entry in page.entries if str(entry.run) not in chosen]
        looked = services.ledger.look([entry.run for entry in entries])
        unneeded, moved, now = list[AgendaEntry](), list[QueueEntry](), clock()
        for entry in entries:
            run = looked.found.get(entry.run)
            if str(entry.run) in chosen or entry.run in looked.unanswered:  # the former: of two messages
                continue
            if run is None or (use := _use_of(entry, run, now)) is _EntryUse.UNNEEDED:
                unneeded.append(entry)
            elif use is _EntryUse.MOVED:
                moved.append((entry, run))
            elif use is _EntryUse.DUE:
                going.append((entry, run))
                chosen.add(str(entry.run))
        unneeded += _moved(moved, services)
        if unneeded:
            services.agenda.remove(unneeded)
        if len(going) > room:
            return NextRuns(going[:room], has_more=True)
        after = page.last
        if after is None:
            return NextRuns(going, has_more=False)
    return NextRuns(going, has_more=True)


class _EntryUse(Enum):
    """What an entry of a wait queue is good for."""

    DUE = "due"  # its run waits for a permit, or ended as one that is reported, by somebody who may have died before
    LATER = "later"  # its run is under way: if its worker vanishes, this may be needed
    MOVED = "moved"  # its next attempt comes later, and this may stand for the only message of it
    UNNEEDED = "unneeded"  # its run has ended, waits for its owner's decision, or was rescheduled to later, for which it has another entry


def _use_of(entry: AgendaEntry, run: RunRow, now: int) -> _EntryUse:
    if run.is_terminal:
        return _EntryUse.DUE if run.state in _REPORTED and run.buried_at is None else _EntryUse.UNNEEDED
    if run.is_undecided:
        return _EntryUse.UNNEEDED
    if run.state in WAITING:
        if run.not_before > max(entry.due, now):
            return _EntryUse.UNNEEDED if run.state is RunState.QUEUED else _EntryUse.MOVED
        return _EntryUse.DUE
    return _EntryUse.LATER if has_live_lease(run, now) else _EntryUse.DUE


def _moved(entries: Sequence[QueueEntry], services: Services) -> list[AgendaEntry]:
    """Let the ticker send for runs at their time; the entries of the wait queue that may go then.

    A worker whose message of a next attempt was not accepted lets the present one come back: that one has entered the queue, and by a
    clock that is slow before its time.
    """
    if not entries:
        return []
    layout = services.agenda.layout()
    timers = [
        replace(e, shard=layout.shard_of(run.ref.owner), due=run.not_before, queue=run.queue) for e, run in entries
    ]
    accepted = services.agenda.put(timers)
    return [entry for (entry, _), timer in zip(entries, timers, strict=True) if timer.key in accepted]
