"""Concurrency caps: before their leases, the runs of a batch take their permits; when their messages are finished, they give them back.

    admit ─► hold_permits ─► leases ─► jobs ─► settle ─► finish: return_permits
                 │
                 └─ no permit: into the cap's wait queue; the process that releases permits sends for it (``fires/flow/wait_queue.py``)

For tenants with such limits alone. A run has a permit of each of its caps, or none. No lease ends later than the permits of its run. If
permits cannot be read or written, runs start without, or wait where ``concurrency_strict`` is set.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence

from quarterjack.domain.times import SECOND
from quarterjack.errors import QuarterjackError
from quarterjack.fires.flow.wait_queue import change_cap, enqueue
from quarterjack.state.lease import SKEW, lease_end
from quarterjack.state.tenants.caps import ConcurrencyCap, PermitHold, caps_of, flow_cap, frozen_caps
from quarterjack.state.tenants.permits import CapPermits, PermitRequest
from quarterjack.values import replace
from quarterjack.worker.admission.full import make_room, skip_full
from quarterjack.worker.context import Done, WorkerContext
from quarterjack.worker.delivery.visibility import InFlightMessage
from quarterjack.worker.stages import Action, Outcome, ReadyRun, ReceivedMessage, UnreadableMessage

log = logging.getLogger(__name__)

NO_PERMIT = "concurrency"  # why a run waits
_UNREAD = 10 * SECOND  # before a message comes back whose permits could not be read

_Outcomes = dict[InFlightMessage, Outcome]


def hold_permits(worker: WorkerContext, ready: Sequence[ReadyRun]) -> list[ReadyRun | Outcome]:
    """For each run of a batch: itself, if it has a permit of each of its caps, or the outcome of its message."""
    wanted: dict[str, list[tuple[ReadyRun, PermitRequest]]] = defaultdict(list)  # by the record of the caps
    for each in ready:
        if each.in_flight.permits.holds:  # it asked before, with others
            continue
        caps = caps_of(each.governance, each.spec.job)
        if each.policies.flow is not None:
            caps = (*caps, flow_cap(each.governance.tenant, each.spec.job, each.policies.flow, each.payload))
        frozen = each.received.definition.batch.frozen.get(each.message.run.tenant)
        if frozen is not None and (parts := frozen.parts_at(worker.clock())):
            caps = (*caps, *frozen_caps(parts, each.spec, caps, each.governance.tenant))
        if not caps:
            continue
        for record in dict.fromkeys(cap.record for cap in caps):
            shared = tuple(cap for cap in caps if cap.record == record)
            wanted[record].append(
                (each, PermitRequest(run=str(each.message.run), was_queued=each.message.was_queued, caps=shared))
            )
    outcomes: _Outcomes = {}
    # What is frozen first: its runs take no permit that others need.
    for record in sorted(wanted, key=lambda one: (not wanted[one][0][1].caps[0].since, one)):
        going = [(each, request) for each, request in wanted[record] if each.in_flight not in outcomes]
        if going:
            outcomes |= _ask(worker, going)  # what they have of other records goes back when they are finished
    return [outcomes.get(each.in_flight, each) for each in ready]


def _ask(worker: WorkerContext, asking: Sequence[tuple[ReadyRun, PermitRequest]]) -> _Outcomes:
    """Ask for the permits of caps that share a record; the outcomes of those that get none."""
    requests = [request for _, request in asking]
    try:
        refused, process = worker.permits.take(requests, worker.name, worker.services, worker.clock)
    except Exception as problem:  # noqa: BLE001 (any failure: the caps say what follows)
        return _unread(worker, asking, problem)
    waiting: dict[ConcurrencyCap, list[ReadyRun]] = defaultdict(list)
    for each, request in asking:
        has = each.in_flight.permits
        if request.run in refused:
            each.in_flight.permits = replace(has, asked=True)
            waiting[refused[request.run]].append(each)
        else:
            more = tuple(PermitHold(cap, process if cap.flow is None else request.run) for cap in request.caps)
            each.in_flight.permits = replace(has, asked=True, holds=has.holds + more)
    outcomes: _Outcomes = {}
    for cap, ready in waiting.items():
        skipped = skip_full(worker, cap, ready)
        outcomes |= skipped
        left = [each for each in ready if each.in_flight not in skipped]
        outcomes |= _enqueue(worker, cap, left) if left else {}
    return outcomes


def _unread(worker: WorkerContext, asking: Sequence[tuple[ReadyRun, PermitRequest]], problem: Exception) -> _Outcomes:
    """Without their permits runs start, but those with a cap that is strict."""
    cap, error = asking[0][1].caps[0], f"{type(problem).__name__}: {problem}"
    ids = {"cap": cap.id, "runs": len(asking), "strict": cap.strict, "error": error}
    log.warning("permits.unread", extra=ids)
    strict = []
    for each, request in asking:
        if any(cap.strict for cap in request.caps):
            strict.append(each)
        else:
            each.in_flight.permits = replace(each.in_flight.permits, uncapped=True)
    return _kept(worker, strict, "permits_unread")


def _kept(worker: WorkerContext, ready: Sequence[ReadyRun], why: str) -> _Outcomes:
    at = worker.clock() + _UNREAD
    return {each.in_flight: Outcome.kept(why, at=at) for each in ready}


def _enqueue(worker: WorkerContext, cap: ConcurrencyCap, ready: Sequence[ReadyRun]) -> _Outcomes:
    """Enqueue the runs; the messages go, because the process that releases a permit sends new ones."""
    services, clock = worker.services, worker.clock
    try:
        worker.permits.check_later(cap, services, clock())  # first, so that no entry is without a timer
        waiting = [
            (replace(each.message, priority=each.policies.priority), each.received.delivery.id) for each in ready
        ]
        enqueue(cap, waiting, services, clock)
        worker.permits.check_later(cap, services, clock())  # the ticker may have removed it, if this worker stalled
    except QuarterjackError as problem:
        log.warning("wait_queue.not_joined", extra={"cap": cap.id, "runs": len(ready), "error": str(problem)})
        return _kept(worker, ready, "queue_unwritten")
    make_room(worker, cap, ready)
    try:  # a permit may have come free meanwhile, whose worker found no queued run
        change_cap(cap, CapPermits.enqueued, services, clock, name=worker.name)
    except QuarterjackError as problem:  # then the ticker does
        log.warning("wait_queue.not_looked_at", extra={"cap": cap.id, "error": str(problem)})
    return {each.in_flight: Outcome(action=Action.POSTPONED, why=NO_PERMIT) for each in ready}


def is_covered(worker: WorkerContext, ready: ReadyRun) -> bool:
    """Whether a lease that is taken now ends before the permits of its run do."""
    until = lease_end(max(worker.clock(), ready.message.not_before))
    return all(worker.permits.covers(hold, until) for hold in ready.in_flight.permits.holds)


def return_permits(worker: WorkerContext, done: Sequence[Done]) -> None:
    """Give back the permits of runs whose messages are finished, and those that were kept for messages from a wait queue."""
    give_back(
        worker, [(received.in_flight, received.in_flight.settled or outcome.is_over) for received, outcome in done]
    )
    for received, outcome in done:
        if isinstance(received, UnreadableMessage) or received.in_flight.permits.asked:
            continue
        if received.message.was_queued:
            _drop_reservation(worker, received, is_over=outcome.is_over)


def give_back(worker: WorkerContext, messages: Iterable[tuple[InFlightMessage, bool]]) -> None:
    """Give back the permits of runs that this process will not run, or has run, each with whether its lease is over. Raises nothing.

    The permit of a flow is its run's: another delivery of the message may have it as well, and the lease. It goes with that.
    """
    holds = list[tuple[PermitHold, int]]()
    for in_flight, is_over in messages:
        over = in_flight.leased_until + SKEW if in_flight.leased_until else 0
        has = in_flight.permits
        if has.holds:
            holds += [(hold, over) for hold in has.holds if hold.cap.flow is None or is_over]
            in_flight.permits = replace(has, holds=())
    if holds:
        worker.permits.give_back(holds, worker.services, worker.clock)


def _drop_reservation(worker: WorkerContext, received: ReceivedMessage, *, is_over: bool) -> None:
    """Whatever kept a queued run from asking for the permit that was kept for it: others may have it. A flow's only if it has ended."""
    run, spec, governance = str(received.message.run), received.definition.spec, received.definition.governance
    if governance is None or spec is None:
        return
    caps, job = caps_of(governance, spec.job), worker.jobs.get(spec.job)
    flow = None if job is None or not is_over else job.policies.overridden(spec.overrides).flow
    if flow is not None and (flow.key is None or spec.payload is not None):
        caps = (*caps, flow_cap(governance.tenant, spec.job, flow, spec.payload))
    for cap in caps:
        try:
            change_cap(cap, lambda permits: permits.without([run]), worker.services, worker.clock)
        except QuarterjackError as problem:  # then it is free when its time is over
            log.warning("permits.not_dropped", extra={"cap": cap.id, "error": str(problem)})
