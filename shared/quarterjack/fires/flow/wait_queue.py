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
from collections.abc import Callable, Mapping, Sequence
from zlib import crc32

from quarterjack.domain.message import Message, Wait, reading
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import AgendaEntry, EntryKind, RunRow
from quarterjack.domain.times import DAY
from quarterjack.errors import Unavailable
from quarterjack.fires.claim import message_of, outgoing
from quarterjack.fires.context import FAR, FireContext, Handled, MessageCounts, TickCounts, next_look
from quarterjack.fires.flow.next_runs import PAGE, QueueEntry, next_runs
from quarterjack.fires.flow.run_flow import caps_of_run
from quarterjack.ports.services import Clock, Services
from quarterjack.state.tenants.caps import ALL, ConcurrencyCap, cap_named, flow_named, governed_by, is_of_flow
from quarterjack.state.tenants.permits import SENT, CapPermits, SharedPermits, parse_permits
from quarterjack.stores.records import Record
from quarterjack.values import replace

log = logging.getLogger(__name__)

TRIES = 12  # writes of permits that others keep writing
_JITTER = 0.02  # seconds of a pause between two writes, times the number of the try, at the most
_KEPT = 30 * DAY  # ms that the permits of a flow's key are kept while runs have or await some; without, IDLE
_IDLE = 2 * DAY

Edit = Callable[[SharedPermits], SharedPermits]


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
    caps: Sequence[ConcurrencyCap], edit: Edit, services: Services, clock: Clock, *, name: str | None = None
) -> SharedPermits:
    """The permits of some caps that share a record, after an edit. Sends for their queued runs if permits are free then.

    ``edit`` is called for each try; before another one waits who has a ``name``. Raises Unavailable: it is not known whether the edit was
    written; and Unreadable.
    """
    for again in range(TRIES):
        if again and name is not None:
            _pause(services, name, again)
        before, version = read_shared(caps[0], services)
        after, going, starts = edit(before.current(clock())), list[QueueEntry](), dict[str, int]()
        for cap in caps:
            permits, room = after.of(cap.job), after.room(cap, clock())
            if permits.has_queue and room:
                chosen = next_runs(cap, permits.sent, room, services, clock)
                sent = [str(entry.run) for entry, _ in chosen.going]
                fed = permits.fed(sent, clock(), has_queue=chosen.has_more)
                after, going = after.changed({cap.job: fed}), [*going, *chosen.going]
                starts |= {run: fed.start_of(run) for run in sent}
        if after == before or services.records.write(_record(caps[0], after, version + 1, clock())):
            _send_for(going, starts, services, clock)
            return after
    raise Unavailable(f"the permits of {caps[0].record} were written by others {TRIES} times")


def _record(cap: ConcurrencyCap, permits: SharedPermits, version: int, now: int) -> Record:
    """That of a flow's key goes when it has long been idle."""
    expires = None
    if cap.flow is not None:
        own = permits.of(cap.job)
        expires = now + (_KEPT if own.sent or own.has_queue else _IDLE)
    return Record(owner=cap.owner, key=cap.key, version=version, body=permits.body(), expires=expires)


def _pause(services: Services, process: str, again: int) -> None:
    """Before write number ``again`` of permits that others write as well: for each process another while."""
    services.wait(_JITTER * again * (crc32(f"{process} {again}".encode()) % 1_000) / 1_000)


def change_cap(
    cap: ConcurrencyCap,
    edit: Callable[[CapPermits], CapPermits],
    services: Services,
    clock: Clock,
    *,
    name: str | None = None,
) -> CapPermits:
    """The same of one cap alone."""

    def of_cap(shared: SharedPermits) -> SharedPermits:
        return shared.changed({cap.job: edit(shared.of(cap.job))})

    return change_permits([cap], of_cap, services, clock, name=name).of(cap.job)


def _send_for(going: Sequence[QueueEntry], starts: Mapping[str, int], services: Services, clock: Clock) -> int:
    """Send the messages of runs for their ``starts`` (UTC ms), and remove their entries. What fails stays, for the ticker."""
    if not going:
        return 0
    try:
        wanted = [(entry, message_of(run, services)) for entry, run in going]
        messages = [(entry, message.having_waited(Wait.PERMIT)) for entry, message in wanted if message is not None]
        now = clock()
        accepted = services.work.send(
            [outgoing(one, max(one.not_before, starts[str(one.run)]), now, services.work) for _, one in messages]
        )
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
            shard=cap.wait_queue_of(message.priority),
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
    for queue in cap.wait_queues:
        before = AgendaEntry(shard=queue, due=run.not_before, kind=EntryKind.RUN, id=f"{run.ref}#")
        page = services.agenda.due(queue, upto=run.not_before, after=before.key, limit=1)
        if any(entry.run == run.ref for entry in page.entries):
            return True
    return False


def wait_queue_of(
    run: RunRow,
    services: Services,
    clock: Clock,
    *,
    waits: Callable[[ConcurrencyCap, RunRow, Services], bool] = is_queued,
) -> ConcurrencyCap | None:
    """The cap in whose wait queue a run ``waits``; its message comes when there is a permit. Raises Unavailable, Unreadable."""
    return next((cap for cap in caps_of_run(run, services, clock) if waits(cap, run, services)), None)


# The ticker.


def check_queue(entry: AgendaEntry, context: FireContext) -> Handled:
    """Send for the runs of a wait queue as far as permits are free, whatever its record says of it."""
    services, clock = context.services, context.clock
    cap = _named(entry.id, services, clock)
    known, over = set[str](), _over(cap, services)

    def with_queue(permits: CapPermits) -> CapPermits:
        known.clear()
        known.update(permits.sent)
        return permits.without(over).enqueued()

    permits = change_cap(cap, with_queue, services, clock)
    again = _send_again(cap, permits, services, clock)
    sent = TickCounts(messages=MessageCounts(sent=len(permits.sent.keys() - known) + again))
    left = any(services.agenda.due(queue, upto=FAR, after=None, limit=1).entries for queue in cap.wait_queues)
    if not (permits.has_queue or left or (permits.sent and cap.flow is None)):
        return Handled(may_go=True, counts=sent)
    later = replace(entry, due=next_look(clock()), failures=0)
    return Handled(may_go=later.due > entry.due and later.key in services.agenda.put([later]), counts=sent)


def _send_again(cap: ConcurrencyCap, permits: CapPermits, services: Services, clock: Clock) -> int:
    """Send once more for the runs that have long had a permit of a flow and are still in its wait queue: their sender may have died."""
    if cap.flow is None or not permits.sent:
        return 0
    pages = [services.agenda.due(queue, upto=FAR, after=None, limit=PAGE) for queue in cap.wait_queues]
    left = [entry for page in pages for entry in page.entries if str(entry.run) in permits.sent]
    late = [entry for entry in left if permits.start_of(str(entry.run)) + SENT < clock()]
    looked = services.ledger.look([entry.run for entry in late]).found if late else {}
    going = [(entry, looked[entry.run]) for entry in late if entry.run in looked]
    return _send_for(going, {str(entry.run): 0 for entry, _ in going}, services, clock)


def _over(cap: ConcurrencyCap, services: Services) -> list[str]:
    """The runs that have ended and still have a permit of a flow: their worker died before it gave that back."""
    if cap.flow is None:
        return []
    refs = {run: parse_run_id(run) for run in read_permits(cap, services).sent}
    looked = services.ledger.look(list(refs.values())) if refs else None
    found = {} if looked is None else looked.found
    return [run for run, ref in refs.items() if ref in found and found[ref].is_terminal]


def _named(identity: str, services: Services, clock: Clock) -> ConcurrencyCap:
    """The cap of a wait queue's timer: as profiles have it now, or of a flow as its runs asked last. Raises ValueError, Unavailable."""
    if not is_of_flow(identity):
        return cap_named(identity, services.tenants.governance(governed_by(identity), clock()))
    cap = flow_named(identity)
    permits = read_permits(cap, services)
    return cap if permits.flow is None else replace(cap, most=permits.flow.at_a_time, flow=permits.flow)
