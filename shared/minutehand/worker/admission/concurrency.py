"""Concurrency caps: before their leases, the runs of a batch take their slots; when their messages are finished, they give them back.

    admit ─► hold_slots ─► leases ─► jobs ─► settle ─► finish: return_slots
                 │
                 └─ no slot: into the line of the cap; whoever gives slots back sends for it (``fires/lines.py``)

For tenants with such limits alone. A run has a slot of each of its caps, or none. No lease ends later than the slots of its run. If
slots cannot be read or written, runs start without, or wait where ``concurrency_strict`` is set.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from minutehand.domain.times import SECOND
from minutehand.errors import MinutehandError
from minutehand.fires.lines import change_slots, line_up
from minutehand.state.lease import SKEW, lease_end
from minutehand.state.tenants.slots import CapSlots, ConcurrencyCap, SlotHold, caps_of
from minutehand.worker.context import Done, WorkerContext
from minutehand.worker.slots import pause
from minutehand.worker.stages import Action, InFlightMessage, Outcome, ReadyRun, ReceivedMessage

log = logging.getLogger(__name__)

NO_SLOT = "concurrency"  # why a run waits
_UNREAD = 10 * SECOND  # before a message comes back whose slots could not be read

_Outcomes = dict[InFlightMessage, Outcome]


def hold_slots(worker: WorkerContext, ready: Sequence[ReadyRun]) -> list[ReadyRun | Outcome]:
    """For each run of a batch: itself, if it has a slot of each of its caps, or the outcome of its message."""
    wanted: dict[ConcurrencyCap, list[ReadyRun]] = defaultdict(list)
    for each in ready:
        if not each.in_flight.slots:  # else it asked before, with others
            for cap in caps_of(each.governance or each.received.governance, each.spec.job):
                wanted[cap].append(each)
    outcomes: _Outcomes = {}
    for cap in sorted(wanted, key=lambda one: one.id):
        going = [each for each in wanted[cap] if each.in_flight not in outcomes]
        if going:
            outcomes |= _ask(worker, cap, going)  # what they have of other caps goes back when they are finished
    return [outcomes.get(each.in_flight, each) for each in ready]


def _ask(worker: WorkerContext, cap: ConcurrencyCap, ready: Sequence[ReadyRun]) -> _Outcomes:
    """Ask for the slots of one cap; the outcomes of those that get none."""
    runs = [(str(each.message.run), each.message.lined) for each in ready]
    try:
        got, process = worker.slots.take(cap, runs, worker.name, worker.services, worker.clock)
    except Exception as problem:  # noqa: BLE001 (any failure: the cap says what follows)
        error = f"{type(problem).__name__}: {problem}"
        log.warning("slots.unread", extra={"cap": cap.id, "runs": len(runs), "strict": cap.strict, "error": error})
        if cap.strict:
            return _kept(worker, ready, "slots_unread")
        for each in ready:
            each.in_flight.uncapped = True
        return {}
    refused = []
    for each in ready:
        each.in_flight.asked = True
        if str(each.message.run) in got:
            each.in_flight.slots = (*each.in_flight.slots, SlotHold(cap, process))
        else:
            refused.append(each)
    return _in_line(worker, cap, refused) if refused else {}


def _kept(worker: WorkerContext, ready: Sequence[ReadyRun], why: str) -> _Outcomes:
    at = worker.clock() + _UNREAD
    return {each.in_flight: Outcome.kept(each.message, why, at=at) for each in ready}


def _in_line(worker: WorkerContext, cap: ConcurrencyCap, ready: Sequence[ReadyRun]) -> _Outcomes:
    """Into the line; the messages go, because whoever gives a slot back sends new ones."""
    services, clock = worker.services, worker.clock
    try:
        worker.slots.look_after(cap, services, clock())  # first, so that no entry is without a timer
        line_up(cap, [(each.message, each.received.delivery.id) for each in ready], services, clock)
        worker.slots.look_after(cap, services, clock())  # the ticker may have removed it, if this worker stalled
    except MinutehandError as problem:
        log.warning("line.not_joined", extra={"cap": cap.id, "runs": len(ready), "error": str(problem)})
        return _kept(worker, ready, "line_unwritten")
    try:  # a slot may have come free meanwhile, whose worker found nobody in the line
        change_slots(cap, CapSlots.lined_up, services, clock, pause=partial(pause, services, worker.name))
    except MinutehandError as problem:  # then the ticker does
        log.warning("line.not_looked_at", extra={"cap": cap.id, "error": str(problem)})
    return {each.in_flight: Outcome(action=Action.POSTPONED, message=each.message, why=NO_SLOT) for each in ready}


def is_covered(worker: WorkerContext, ready: ReadyRun) -> bool:
    """Whether a lease that is taken now ends before the slots of its run do."""
    until = lease_end(max(worker.clock(), ready.message.not_before))
    return all(worker.slots.covers(hold, until) for hold in ready.in_flight.slots)


def return_slots(worker: WorkerContext, done: Sequence[Done]) -> None:
    """Give back the slots of runs whose messages are finished, and those that were kept for messages from a line."""
    give_back(worker, [received.in_flight for received, _ in done])
    for received, _ in done:
        message = received.message
        if message is not None and message.lined and not received.in_flight.asked:
            _drop_reservation(worker, received, str(message.run))


def give_back(worker: WorkerContext, messages: Iterable[InFlightMessage]) -> None:
    """Give back the slots of runs that this process will not run, or has run. Raises nothing."""
    holds = list[tuple[SlotHold, int]]()
    for in_flight in messages:
        over = in_flight.leased_until + SKEW if in_flight.leased_until else 0
        holds += [(hold, over) for hold in in_flight.slots]
        in_flight.slots = ()
    if holds:
        worker.slots.give_back(holds, worker.services, worker.clock)


def _drop_reservation(worker: WorkerContext, received: ReceivedMessage, run: str) -> None:
    """Whatever kept a run of a line from asking for the slot that was kept for it: others may have that one."""
    tenant, spec = received.in_flight.ref.tenant, received.spec
    governance = received.revisions.governance.get(tenant)
    if governance is None or spec is None:
        return
    for cap in caps_of(governance, spec.job):
        try:
            change_slots(cap, lambda slots: slots.without([run]), worker.services, worker.clock)
        except MinutehandError as problem:  # then it is free when its time is over
            log.warning("slots.not_dropped", extra={"cap": cap.id, "error": str(problem)})
