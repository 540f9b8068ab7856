"""Turns: which runs of an exclusive schedule may go, which wait; and the timer of those that wait.

    waits:     turns ─► reason ─► agenda entry ─► the message goes       a run that waits has no message of its own
    moves up:  turns ─► message                                         by whoever finds room: a worker that is done, or the ticker

One record a schedule; its version decides every race. Whoever dies between two of these steps leaves the entry, and the ticker, a
minute later, sends for everybody who holds and has no worker. An entry goes only when nobody waits and no holder runs: it is put after
its run is in the queue, under a key of its own, so that whoever handles it sees that run. Those still needed merge into one entry a
schedule.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from quarterjack.domain.message import reading
from quarterjack.domain.run import AgendaEntry, EntryKind, RunState
from quarterjack.errors import Unavailable
from quarterjack.fires.claim import message_of, send
from quarterjack.fires.context import GOES, FireContext, Handled, MessageCounts, TickCounts, next_look
from quarterjack.fires.flow.wait_queue import wait_queue_of
from quarterjack.ports.services import Clock, Services
from quarterjack.state.lease import has_live_lease
from quarterjack.state.overlap import TURNS, RunHolder, Turns, ref_of
from quarterjack.stores.records import Record
from quarterjack.values import replace

log = logging.getLogger(__name__)

TRIES = 8  # writes of turns that others keep writing
Pause = Callable[[int], object]  # before try number 1, 2, …: lets others finish


@dataclass(frozen=True, kw_only=True)
class TurnsSnapshot:
    """The turns of a schedule as they were read."""

    owner: str  # "tenant/name"
    version: int  # of its record; 0: there is none
    turns: Turns


def read_turns(owner: str, services: Services) -> TurnsSnapshot:
    """Who holds and who waits. Raises Unavailable."""
    record = services.records.read(owner, TURNS)
    if record is None:
        return TurnsSnapshot(owner=owner, version=0, turns=Turns())
    with reading(f"turns of {owner!r}", record.body):
        return TurnsSnapshot(owner=owner, version=record.version, turns=Turns.of(record.body))


def write_turns(held: TurnsSnapshot, turns: Turns, services: Services) -> bool:
    """Write other turns instead; False if somebody else has written meanwhile."""
    if turns == held.turns:
        return True
    return services.records.write(Record(owner=held.owner, key=TURNS, version=held.version + 1, body=turns.body()))


def pruned(owner: str, turns: Turns, services: Services) -> Turns:
    """Without what has ended, as far as it matters: the holders of a full turns, and whoever would move up."""
    if not turns.room:
        turns = turns.without(ended(owner, turns.holders, services))
    while True:
        over = ended(owner, [waiter.holder for waiter in turns.waiting[: turns.room]], services)
        if not over:
            return turns
        turns = turns.without(over)


def ended(owner: str, pairs: Sequence[RunHolder], services: Services) -> set[RunHolder]:
    """Those of which it is known that they will never hold a lease any more."""
    if not pairs:
        return set()
    looked = services.ledger.look([ref_of(owner, pair) for pair in pairs])
    refs = {pair: ref for pair in pairs if (ref := ref_of(owner, pair)) not in looked.unanswered}
    return {pair for pair, ref in refs.items() if pair.is_over(looked.found.get(ref))}


def move_up(
    owner: str, services: Services, clock: Clock, *, gone: Collection[RunHolder] = (), pause: Pause = lambda _: None
) -> Turns:
    """Let waiting runs move up and send for them; the turns as they are then. ``gone`` have ended. Raises Unavailable.

    Where nobody waits nothing is written: whoever asks next finds out by itself that the holders have ended.
    """
    for again in range(TRIES):
        if again:
            pause(again)
        held = read_turns(owner, services)
        if not held.turns.waiting:
            return held.turns
        moved = pruned(owner, held.turns.without(gone), services).moved_up()
        if write_turns(held, moved, services):
            send_for(owner, newcomers(held.turns, moved), services, clock)
            return moved
    raise Unavailable(f"the turns of {owner!r} were written by others {TRIES} times")


def newcomers(before: Turns, after: Turns) -> list[RunHolder]:
    """The holders that were none before."""
    return [pair for pair in after.holders if pair not in before.holders]


def send_for(owner: str, pairs: Sequence[RunHolder], services: Services, clock: Clock) -> bool:
    """Send the messages of runs that wait for them; whether all were accepted. Raises Unavailable."""
    if not pairs:
        return True
    looked = services.ledger.look([ref_of(owner, pair) for pair in pairs])
    runs = [looked.found.get(ref_of(owner, pair)) for pair in pairs]
    there = [run for pair, run in zip(pairs, runs, strict=True) if run is not None and not pair.is_over(run)]
    wanted = [run for run in there if not run.is_undecided]  # its owner's decision sends
    messages = [message for run in wanted if (message := message_of(run, services)) is not None]
    return not looked.unanswered and all(send(messages, services.work, clock))


# The timer.


def put_turn_timer(owner: str, pair: RunHolder, services: Services, now: int) -> None:
    """Leave an entry for a run that waits in the queue now. Raises Unavailable: then its message must stay."""
    shard = services.agenda.layout().shard_of(owner)
    entry = AgendaEntry(shard=shard, due=next_look(now), kind=EntryKind.TURN, id=f"{owner}#{pair.key}", created_at=now)
    if entry.key not in services.agenda.put([entry]):
        raise Unavailable("the agenda did not accept the entry of a run that has to wait for its turn")


def check_turns(entry: AgendaEntry, context: FireContext) -> Handled:
    """The ticker: let waiting runs of a schedule move up, send for who has no worker.

    A holder that runs now may have no message: its worker can have leased it by a message that another worker has deleted since,
    when it enqueued that run. So the entry stays until all holders have ended, and sends for one whose worker vanished.
    """
    services, clock = context.services, context.clock
    owner = entry.id.partition("#")[0]
    turns = move_up(owner, services, clock)
    looked = services.ledger.look([ref_of(owner, pair) for pair in turns.holders])
    there = {pair: run for pair in turns.holders if (run := looked.found.get(ref_of(owner, pair))) is not None}
    running = [pair for pair, run in there.items() if run.state is RunState.RUNNING and not pair.is_over(run)]
    alone = [pair for pair, run in there.items() if run.state is RunState.QUEUED]
    alone += [pair for pair in running if not has_live_lease(there[pair], clock())]
    alone = [pair for pair in alone if wait_queue_of(there[pair], services, clock) is None]
    overdue = [waiter.holder for waiter in turns.waiting if waiter.until is not None and waiter.until < clock()]
    if not (alone or running or turns.waiting or looked.unanswered):
        return GOES
    accepted = send_for(owner, [*alone, *overdue], services, clock)
    counts = TickCounts(messages=MessageCounts(sent=len(alone) + len(overdue)))
    later = replace(entry, id=owner, due=next_look(clock()), failures=0)
    may_go = later.due > entry.due and later.key in services.agenda.put([later]) and accepted
    return Handled(may_go=may_go, counts=counts)
