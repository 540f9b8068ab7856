"""Concurrency caps as they are stored, and their lines: where runs wait that found no slot, and who sends for them.

    <tenant>/~slots          ~caps         the slots of a tenant's caps
    ~quarterjack/~slots       ~<job>        those of a job over all tenants
    line#<owner>#<key>       <due>#run#…   the line of a cap: a partition of the agenda that no tick pages through

    waits:      line's entry ─► timer ─► the message goes ─► read the slots again
    goes on:    write the slots ─► message ─► the entry goes       by whoever gives slots back, or the ticker

Runs of a line are sent for in the order in which they were due, never more than there are free slots. Whoever dies between two steps
leaves the entry, and the ticker, a minute later, looks at the line.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from quarterjack.domain.message import Message, Wait, reading
from quarterjack.domain.run import WAITING, AgendaEntry, EntryKind, RunRow, RunState
from quarterjack.errors import Unavailable
from quarterjack.fires.claim import message_of, send
from quarterjack.fires.context import FAR, FireContext, TickCounts, next_look
from quarterjack.ports.services import Clock, Services
from quarterjack.state.lease import has_live_lease
from quarterjack.state.tenants.slots import (
    ALL,
    CapSlots,
    ConcurrencyCap,
    SharedSlots,
    cap_named,
    caps_of,
    governed_by,
    parse_slots,
)
from quarterjack.stores.records import Record

log = logging.getLogger(__name__)

TRIES = 12  # writes of slots that others keep writing
PAGE = 100  # entries of a line that are read at once
# Their letter is sent after their end: a message makes its worker send it.
_REPORTED = (RunState.LOST, RunState.EXPIRED)
_PAGES = 10  # of entries whose runs have ended, before the rest is left to the next one who looks

_Entry = tuple[AgendaEntry, RunRow]
Edit = Callable[[SharedSlots], SharedSlots]
Pause = Callable[[int], object]  # before try number 1, 2, …: lets others finish


def read_shared(cap: ConcurrencyCap, services: Services) -> tuple[SharedSlots, int]:
    """The slots of the caps that share a cap's record, and its version; 0: none was ever taken. Raises Unavailable, Unreadable."""
    record = services.records.read(cap.owner, cap.key)
    if record is None:
        return SharedSlots(), 0
    with reading(f"slots of {cap.record}", record.body):
        return parse_slots(record.body), record.version


def read_slots(cap: ConcurrencyCap, services: Services) -> CapSlots:
    """The slots of a cap. Raises Unavailable, Unreadable."""
    return read_shared(cap, services)[0].of(cap.job)


def slots_of(tenant: str, services: Services) -> Mapping[str, CapSlots]:
    """The slots of a tenant's own caps, by job; without those of which none is taken. Raises Unavailable, Unreadable."""
    return read_shared(ConcurrencyCap(tenant=tenant, job=ALL, most=None), services)[0].caps


def change_slots(
    caps: Sequence[ConcurrencyCap], edit: Edit, services: Services, clock: Clock, *, pause: Pause = lambda _: None
) -> SharedSlots:
    """The slots of some caps that share a record, after an edit. Sends for runs of their lines if slots are free then.

    ``edit`` is called for each try. Raises Unavailable: it is not known whether the edit was written; and Unreadable.
    """
    for again in range(TRIES):
        if again:
            pause(again)
        before, version = read_shared(caps[0], services)
        after, going = edit(before.current(clock())), list[_Entry]()
        for cap in caps:
            slots, room = after.of(cap.job), after.room(cap)
            if slots.has_line and room:
                chosen = _next_of(cap, slots.sent, room, services, clock)
                sent = [str(entry.run) for entry, _ in chosen.going]
                after = after.changed({cap.job: slots.fed(sent, clock(), has_line=chosen.has_more)})
                going += chosen.going
        record = Record(owner=caps[0].owner, key=caps[0].key, version=version + 1, body=after.body())
        if after == before or services.records.write(record):
            _send_for(going, services, clock)
            return after
    raise Unavailable(f"the slots of {caps[0].record} were written by others {TRIES} times")


def change_cap(
    cap: ConcurrencyCap,
    edit: Callable[[CapSlots], CapSlots],
    services: Services,
    clock: Clock,
    *,
    pause: Pause = lambda _: None,
) -> CapSlots:
    """The same of one cap alone."""

    def of_cap(shared: SharedSlots) -> SharedSlots:
        return shared.changed({cap.job: edit(shared.of(cap.job))})

    return change_slots([cap], of_cap, services, clock, pause=pause).of(cap.job)


@dataclass(frozen=True)
class _Next:
    """Of a line."""

    going: list[_Entry]  # for which slots are kept
    has_more: bool


def _next_of(cap: ConcurrencyCap, sent: Collection[str], room: int, services: Services, clock: Clock) -> _Next:
    """Up to ``room`` entries of a line whose runs wait and have no message on its way. Those that are moot are removed."""
    going, after, chosen = list[_Entry](), None, {*sent}
    for number in range(_PAGES):
        limit = PAGE if number else min(PAGE, room + len(sent) + 1)  # more only where the first ones have ended
        page = services.agenda.due(cap.line, upto=FAR, after=after, limit=limit)
        entries = [entry for entry in page.entries if str(entry.run) not in chosen]
        looked = services.ledger.look([entry.run for entry in entries])
        moot, moved, now = list[AgendaEntry](), list[_Entry](), clock()
        for entry in entries:
            run = looked.found.get(entry.run)
            if str(entry.run) in chosen or entry.run in looked.unanswered:  # the former: of two messages
                continue
            if run is None or (turn := _turn_of(entry, run, now)) is _Turn.MOOT:
                moot.append(entry)
            elif turn is _Turn.MOVED:
                moved.append((entry, run))
            elif turn is _Turn.DUE:
                going.append((entry, run))
                chosen.add(str(entry.run))
        moot += _moved(moved, services)
        if moot:
            services.agenda.remove(moot)
        if len(going) > room:
            return _Next(going[:room], has_more=True)
        after = page.last
        if after is None:
            return _Next(going, has_more=False)
    return _Next(going, has_more=True)


class _Turn(Enum):
    """What an entry of a line is good for."""

    DUE = "due"  # its run waits for a slot, or ended as one that is reported, by somebody who may have died before
    LATER = "later"  # its run is under way: if its worker vanishes, this may be needed
    MOVED = "moved"  # its next attempt comes later, and this may stand for the only message of it
    MOOT = "moot"  # its run has ended, or was rescheduled to later, for which it has another entry


def _turn_of(entry: AgendaEntry, run: RunRow, now: int) -> _Turn:
    if run.is_terminal:
        return _Turn.DUE if run.state in _REPORTED and run.buried_at is None else _Turn.MOOT
    if run.state in WAITING:
        if run.not_before > max(entry.due, now):
            return _Turn.MOOT if run.state is RunState.QUEUED else _Turn.MOVED
        return _Turn.DUE
    return _Turn.LATER if has_live_lease(run, now) else _Turn.DUE


def _moved(entries: Sequence[_Entry], services: Services) -> list[AgendaEntry]:
    """Let the ticker send for runs at their time; the entries of the line that may go then.

    A worker whose message of a next attempt was not accepted lets the present one come back: that one has joined the line, and by a
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
    """Send the messages of runs, and remove their entries. What fails stays in the line, for the ticker."""
    if not going:
        return 0
    try:
        wanted = [(entry, message_of(run, services)) for entry, run in going]
        messages = [(entry, message.having_waited(Wait.LINE)) for entry, message in wanted if message is not None]
        accepted = send([message for _, message in messages], services.work, clock)
        gone = [entry for entry, message in wanted if message is None]
        gone += [entry for (entry, _), sent in zip(messages, accepted, strict=True) if sent]
        services.agenda.remove(gone)
    except Unavailable as problem:
        log.warning("line.not_sent", extra={"runs": len(going), "error": str(problem)})
        return 0
    return sum(accepted)


def line_up(cap: ConcurrencyCap, messages: Sequence[tuple[Message, str]], services: Services, clock: Clock) -> None:
    """Put runs in the line of a cap, by their messages and the ids of these, which may go then. Raises Unavailable: they must stay.

    Each message has an entry of its own: whoever stalled while it sent for a run removes its entry, and no later one.
    """
    entries = [
        AgendaEntry(
            shard=cap.line,
            due=message.not_before,
            kind=EntryKind.RUN,
            id=f"{message.run}#{identity}",
            created_at=clock(),
        )
        for message, identity in messages
    ]
    accepted = services.agenda.put(entries)
    if any(entry.key not in accepted for entry in entries):
        raise Unavailable(f"the line of {cap.id} did not accept all runs that wait for a slot")


def look_after_line(cap: ConcurrencyCap, services: Services, due: int, now: int) -> None:
    """Let the ticker look at a line. Raises Unavailable."""
    shard = services.agenda.layout().shard_of(cap.id)
    entry = AgendaEntry(shard=shard, due=due, kind=EntryKind.LINE, id=cap.id, created_at=now)
    if entry.key not in services.agenda.put([entry]):
        raise Unavailable(f"the agenda did not accept the timer of the line of {cap.id}")


def is_in_line(cap: ConcurrencyCap, run: RunRow, services: Services) -> bool:
    """Whether a run waits in the line of a cap, or its message is on its way from there. Raises Unavailable, Unreadable."""
    return has_entry(cap, run, services) or str(run.ref) in read_slots(cap, services).sent


def has_entry(cap: ConcurrencyCap, run: RunRow, services: Services) -> bool:
    """Whether a run waits in the line of a cap; one whose message is on its way does not. Raises Unavailable."""
    before = AgendaEntry(shard=cap.line, due=run.not_before, kind=EntryKind.RUN, id=f"{run.ref}#")
    page = services.agenda.due(cap.line, upto=run.not_before, after=before.key, limit=1)
    return any(entry.run == run.ref for entry in page.entries)


def line_of(
    run: RunRow,
    services: Services,
    clock: Clock,
    *,
    waits: Callable[[ConcurrencyCap, RunRow, Services], bool] = is_in_line,
) -> ConcurrencyCap | None:
    """The concurrency cap in whose line a run ``waits``; its message comes when there is a slot for it. Raises Unavailable, Unreadable."""
    governance = services.tenants.governance(run.ref.tenant, clock())
    return next((cap for cap in caps_of(governance, run.job) if waits(cap, run, services)), None)


# The ticker.


def look_at_line(entry: AgendaEntry, context: FireContext, counts: TickCounts) -> bool:
    """Send for the runs of a line as far as slots are free, whatever its record says of it. True when the entry may go."""
    services, clock = context.services, context.clock
    cap = cap_named(entry.id, services.tenants.governance(governed_by(entry.id), clock()))
    known = set[str]()

    def look(slots: CapSlots) -> CapSlots:
        known.clear()
        known.update(slots.sent)
        return slots.lined_up()

    slots = change_cap(cap, look, services, clock)
    counts.sent += len(slots.sent.keys() - known)
    left = services.agenda.due(cap.line, upto=FAR, after=None, limit=1)
    if not (slots.has_line or slots.sent or left.entries):
        return True
    later = replace(entry, due=next_look(clock()), failures=0)
    return later.due > entry.due and later.key in services.agenda.put([later])
