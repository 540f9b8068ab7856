"""Concurrency caps as they are stored, and their wait queues: where runs wait that found no permit, and who sends for them.

    <tenant>/~permits          ~caps         the permits of a tenant's caps
    ~quarterjack/~permits       ~<job>        those of a job over all tenants
    queue#<owner>#<key>       <due>#run#…   the wait queue of a cap: a partition of the agenda that no tick pages through

    waits:      queue's entry ─► timer ─► the message goes ─► read the permits again
    goes on:    write the permits ─► message ─► the entry goes       by whoever gives permits back, or the ticker

Queued runs are sent for in the order in which they were due, never more than there are free permits. Whoever dies between two steps
leaves the entry, and the ticker, a minute later, checks the wait queue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from quarterjack.domain.message import Message, Wait, reading
from quarterjack.domain.run import WAITING, AgendaEntry, EntryKind, RunRow, RunState
from quarterjack.errors import Unavailable
from quarterjack.fires.claim import message_of, send
from quarterjack.fires.context import FAR, FireContext, Handled, MessageCounts, TickCounts, next_look
from quarterjack.ports.services import Clock, Services
from quarterjack.state.lease import has_live_lease
from quarterjack.state.tenants.permits import (
    ALL,
    CapPermits,
    ConcurrencyCap,
    SharedPermits,
    cap_named,
    caps_of,
    governed_by,
    parse_permits,
)
from quarterjack.stores.records import Record
from quarterjack.values import replace

log = logging.getLogger(__name__)

TRIES = 12  # writes of permits that others keep writing
PAGE = 100  # entries of a wait queue that are read at once
# Their letter is sent after their end: a message makes its worker send it.
_REPORTED = (RunState.LOST, RunState.EXPIRED)
_PAGES = 10  # of entries whose runs have ended, before the rest is left to the next check

_Entry = tuple[AgendaEntry, RunRow]
Edit = Callable[[SharedPermits], SharedPermits]
Pause = Callable[[int], object]  # before try number 1, 2, …: lets others finish


def read_shared(cap: ConcurrencyCap, services: Services) -> tuple[SharedPermits, int]:
    """The permits of the caps that share a cap's record, and its version; 0: none was ever taken. Raises Unavailable, Unreadable."""
    record = services.records.read(cap.owner, cap.key)
    if record is None:
        return SharedPermits(), 0
    with reading(f"permits of {cap.record}", record.body):
        return parse_permits(record.body), record.version


def read_permits(cap: ConcurrencyCap, services: Services) -> CapPermits:
    """The permits of a cap. Raises Unavailable, Unreadable."""
    return read_shared(cap, services)[0].of(cap.job)


def permits_of(tenant: str, services: Services) -> Mapping[str, CapPermits]:
    """The permits of a tenant's own caps, by job; without those of which none is taken. Raises Unavailable, Unreadable."""
    return read_shared(ConcurrencyCap(tenant=tenant, job=ALL, most=None), services)[0].caps


def change_permits(
    caps: Sequence[ConcurrencyCap], edit: Edit, services: Services, clock: Clock, *, pause: Pause = lambda _: None
) -> SharedPermits:
    """The permits of some caps that share a record, after an edit. Sends for their queued runs if permits are free then.

    ``edit`` is called for each try. Raises Unavailable: it is not known whether the edit was written; and Unreadable.
    """
    for again in range(TRIES):
        if again:
            pause(again)
        before, version = read_shared(caps[0], services)
        after, going = edit(before.current(clock())), list[_Entry]()
        for cap in caps:
            permits, room = after.of(cap.job), after.room(cap)
            if permits.has_queue and room:
                chosen = _next_of(cap, permits.sent, room, services, clock)
                sent = [str(entry.run) for entry, _ in chosen.going]
                after = after.changed({cap.job: permits.fed(sent, clock(), has_queue=chosen.has_more)})
                going += chosen.going
        record = Record(owner=caps[0].owner, key=caps[0].key, version=version + 1, body=after.body())
        if after == before or services.records.write(record):
            _send_for(going, services, clock)
            return after
    raise Unavailable(f"the permits of {caps[0].record} were written by others {TRIES} times")


def change_cap(
    cap: ConcurrencyCap,
    edit: Callable[[CapPermits], CapPermits],
    services: Services,
    clock: Clock,
    *,
    pause: Pause = lambda _: None,
) -> CapPermits:
    """The same of one cap alone."""

    def of_cap(shared: SharedPermits) -> SharedPermits:
        return shared.changed({cap.job: edit(shared.of(cap.job))})

    return change_permits([cap], of_cap, services, clock, pause=pause).of(cap.job)


@dataclass(frozen=True)
class _Next:
    """Of a wait queue."""

    going: list[_Entry]  # for which permits are kept
    has_more: bool


def _next_of(cap: ConcurrencyCap, sent: Collection[str], room: int, services: Services, clock: Clock) -> _Next:
    """Up to ``room`` entries of a wait queue whose runs wait and have no message on its way. Unneeded entries are removed."""
    going, after, chosen = list[_Entry](), None, {*sent}
    for number in range(_PAGES):
        limit = PAGE if number else min(PAGE, room + len(sent) + 1)  # more only where the first ones have ended
        page = services.agenda.due(cap.wait_queue, upto=FAR, after=after, limit=limit)
        entries = [entry for entry in page.entries if str(entry.run) not in chosen]
        looked = services.ledger.look([entry.run for entry in entries])
        unneeded, moved, now = list[AgendaEntry](), list[_Entry](), clock()
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
            return _Next(going[:room], has_more=True)
        after = page.last
        if after is None:
            return _Next(going, has_more=False)
    return _Next(going, has_more=True)


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


def _moved(entries: Sequence[_Entry], services: Services) -> list[AgendaEntry]:
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


def _send_for(going: Sequence[_Entry], services: Services, clock: Clock) -> int:
    """Send the messages of runs, and remove their entries. What fails stays in the wait queue, for the ticker."""
    if not going:
        return 0
    try:
        wanted = [(entry, message_of(run, services)) for entry, run in going]
        messages = [(entry, message.having_waited(Wait.PERMIT)) for entry, message in wanted if message is not None]
        accepted = send([message for _, message in messages], services.work, clock)
        gone = [entry for entry, message in wanted if message is None]
        gone += [entry for (entry, _), sent in zip(messages, accepted, strict=True) if sent]
        services.agenda.remove(gone)
    except Unavailable as problem:
        log.warning("wait_queue.not_sent", extra={"runs": len(going), "error": str(problem)})
        return 0
    return sum(accepted)


def enqueue(cap: ConcurrencyCap, messages: Sequence[tuple[Message, str]], services: Services, clock: Clock) -> None:
    """Put runs in the wait queue of a cap, by their messages and the ids of these, which may go then. Raises Unavailable: they must stay.

    Each message has an entry of its own: whoever stalled while it sent for a run removes its entry, and no later one.
    """
    entries = [
        AgendaEntry(
            shard=cap.wait_queue,
            due=message.not_before,
            kind=EntryKind.RUN,
            id=f"{message.run}#{identity}",
            created_at=clock(),
        )
        for message, identity in messages
    ]
    accepted = services.agenda.put(entries)
    if any(entry.key not in accepted for entry in entries):
        raise Unavailable(f"the wait queue of {cap.id} did not accept all runs that wait for a permit")


def put_queue_timer(cap: ConcurrencyCap, services: Services, due: int, now: int) -> None:
    """Let the ticker check a wait queue. Raises Unavailable."""
    shard = services.agenda.layout().shard_of(cap.id)
    entry = AgendaEntry(shard=shard, due=due, kind=EntryKind.QUEUE, id=cap.id, created_at=now)
    if entry.key not in services.agenda.put([entry]):
        raise Unavailable(f"the agenda did not accept the timer of the wait queue of {cap.id}")


def is_queued(cap: ConcurrencyCap, run: RunRow, services: Services) -> bool:
    """Whether a run waits in the wait queue of a cap, or its message is on its way from there. Raises Unavailable, Unreadable."""
    return has_entry(cap, run, services) or str(run.ref) in read_permits(cap, services).sent


def has_entry(cap: ConcurrencyCap, run: RunRow, services: Services) -> bool:
    """Whether a run waits in the wait queue of a cap; one whose message is on its way does not. Raises Unavailable."""
    before = AgendaEntry(shard=cap.wait_queue, due=run.not_before, kind=EntryKind.RUN, id=f"{run.ref}#")
    page = services.agenda.due(cap.wait_queue, upto=run.not_before, after=before.key, limit=1)
    return any(entry.run == run.ref for entry in page.entries)


def wait_queue_of(
    run: RunRow,
    services: Services,
    clock: Clock,
    *,
    waits: Callable[[ConcurrencyCap, RunRow, Services], bool] = is_queued,
) -> ConcurrencyCap | None:
    """The cap in whose wait queue a run ``waits``; its message comes when there is a permit. Raises Unavailable, Unreadable."""
    governance = services.tenants.governance(run.ref.tenant, clock())
    return next((cap for cap in caps_of(governance, run.job) if waits(cap, run, services)), None)


# The ticker.


def check_queue(entry: AgendaEntry, context: FireContext) -> Handled:
    """Send for the runs of a wait queue as far as permits are free, whatever its record says of it."""
    services, clock = context.services, context.clock
    cap = cap_named(entry.id, services.tenants.governance(governed_by(entry.id), clock()))
    known = set[str]()

    def with_queue(permits: CapPermits) -> CapPermits:
        known.clear()
        known.update(permits.sent)
        return permits.enqueued()

    permits = change_cap(cap, with_queue, services, clock)
    sent = TickCounts(messages=MessageCounts(sent=len(permits.sent.keys() - known)))
    left = services.agenda.due(cap.wait_queue, upto=FAR, after=None, limit=1)
    if not (permits.has_queue or permits.sent or left.entries):
        return Handled(may_go=True, counts=sent)
    later = replace(entry, due=next_look(clock()), failures=0)
    return Handled(may_go=later.due > entry.due and later.key in services.agenda.put([later]), counts=sent)
