"""Lease: take the exclusive right to execute runs, or say why not. A run has started when its lease is committed.

The plain first leases of a batch are one request. A run that this request refuses, and a run of a batch of one, ask by themselves: up
to three times while others move the row, and after a worker that vanished. Both ask for the transition of ``_lease_of``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from quarterjack.domain.message import Message
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import MISSED, AgendaEntry, EntryKind, FailedAttemptRow, RunRow, RunState
from quarterjack.errors import Unavailable
from quarterjack.state.lease import SKEW, lease, lease_end, takeable_at
from quarterjack.state.refusal import vanished
from quarterjack.state.run_spec import RunSpec
from quarterjack.state.transition import Transition
from quarterjack.stores.ledger import TransitionResult
from quarterjack.worker.admission.concurrency import is_covered
from quarterjack.worker.admission.refused import RETRY_AFTER, record, refused, version_bound
from quarterjack.worker.admission.tenant_state import barred, is_believed
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.delivery.receive import on_failure, on_service_error
from quarterjack.worker.delivery.visibility import Lease
from quarterjack.worker.stages import Action, LeasedRun, Outcome, ReadyRun

log = logging.getLogger(__name__)

_TRIES = 3  # leases tried on a row that others keep moving


def lease_runs(worker: WorkerContext, ready: Sequence[ReadyRun]) -> list[LeasedRun | Outcome | None]:
    """For each run: leased, its outcome, or None: the shared request refused it, so that it has to ask by itself."""
    if len(ready) == 1 and not ready[0].ahead:
        try:
            return [_lease_patiently(worker, ready[0])]
        except Exception as problem:  # noqa: BLE001 (on_failure logs it)
            return [on_failure(worker, ready[0].received, problem)]
    now, leases = worker.clock(), dict[RunRef, Transition]()
    for each in ready:
        if not each.in_flight.lost and is_believed(each, now):
            leases[each.message.run] = _lease_of(worker, each, now, worker.new_lease_token(), first=True)
            each.in_flight.leased_until = lease_end(max(now, each.message.not_before))
    known = {each.message.run for each in ready if _is_known(each, now)}
    answers: Mapping[RunRef, TransitionResult] = {}
    try:
        if leases:
            answers = worker.services.ledger.lease_all(list(leases.items()), known=known)
    except Exception:
        log.exception("work.leases_failed", extra={"runs": len(leases)})
    return [_taken(worker, each, leases.get(each.message.run), answers.get(each.message.run)) for each in ready]


def _is_known(ready: ReadyRun, now: int) -> bool:
    """Whether the row need not come back with a lease that is granted.

    A row that was QUEUED when it was read is the same but for the lease: with its state or its revision every writer changes what
    the lease compares, except for one that waits for its turn, which shares no request. Of a run whose row was not read, it says no
    more than revision and lease, if it is a fire that no ticker can have claimed too late.
    """
    row = ready.received.definition.row
    return now - ready.spec.due <= MISSED if row is None else row.state is RunState.QUEUED


def _lease_of(
    worker: WorkerContext, ready: ReadyRun, now: int, token: str, *, first: bool, steal: bool = False
) -> Transition:
    """The one builder of it. Taken ahead of its instant it is dated at that instant."""
    return lease(
        revision=ready.message.revision,
        backfill=ready.message.backfill,
        seen_fence=ready.message.fence,
        now=max(now, ready.message.not_before),
        token=token,
        worker=worker.name,
        max_attempts=ready.policies.max_attempts,
        steal=steal,
        first=first,
        published=ready.received.delivery.sent_at or None,
        bound_to=version_bound(worker, ready),
    )


def _taken(
    worker: WorkerContext, ready: ReadyRun, asked: Transition | None, moved: TransitionResult | None
) -> LeasedRun | Outcome | None:
    if asked is None:  # this process stops, or has stalled since the run was admitted
        return Outcome.left(Action.RELEASED, "stopping") if ready.in_flight.lost else None
    if moved is None:
        return on_service_error(worker, ready.received, "the lease was not answered")
    if not moved.applied:
        ready.in_flight.leased_until = 0
        return None
    return _leased(ready, moved.run or first_run(ready.message, ready.spec, asked, ready.received.definition.row))


def first_run(message: Message, spec: RunSpec, leased: Transition, row: RunRow | None = None) -> RunRow:
    """The run as its first lease leaves it: that of its ``row`` as it was QUEUED, or of a fire whose row was not read."""
    written: Mapping[str, Any] = leased.changes  # named as the fields
    if row is not None:
        return RunRow(**{**vars(row), **written})
    return RunRow(
        ref=message.run,
        revision=message.revision,
        job=spec.job,
        due=spec.due,
        not_before=message.not_before,
        **written,
    )


def _leased(ready: ReadyRun, run: RunRow, *, rescued: bool = False) -> LeasedRun:
    in_flight = ready.in_flight
    in_flight.lease = Lease(run=run, unbegun=ready.ahead)
    in_flight.leased_until = run.lease_until or 0
    return LeasedRun(**vars(ready), run=run, rescued=rescued)


def _lease_patiently(worker: WorkerContext, ready: ReadyRun) -> LeasedRun | Outcome:
    """Up to three times while others move the row, and after a worker that vanished. Raises Unavailable."""
    message, in_flight, token = ready.message, ready.in_flight, worker.new_lease_token()
    watch = _leave_watch(worker, message, token) if ready.is_at_most_once else None
    in_flight.at_most_once = ready.is_at_most_once  # before there is a lease to give back
    abandoned: FailedAttemptRow | None = None  # by a worker that vanished: its lease is taken only when that was read
    for _ in range(_TRIES):
        if in_flight.lost:
            return Outcome.left(Action.RELEASED, "stopping")
        denied = barred(worker, ready)
        if denied is not None:
            return denied
        now = worker.clock()
        if not is_covered(worker, ready):
            return Outcome.kept("permits_lapsed", at=now + RETRY_AFTER)
        steal, begin = abandoned is not None and not ready.is_at_most_once, worker.clock()
        in_flight.leased_until = lease_end(max(begin, message.not_before))
        asked = _lease_of(worker, ready, begin, token, first=False, steal=steal)
        moved = worker.services.ledger.move(message.run, asked)
        if moved.applied and moved.run is not None:
            rescued = abandoned is not None and moved.run.fence == abandoned.fence + 1
            if abandoned is not None and rescued:
                record(abandoned, worker.services.siblings)
            if watch is not None and worker.clock() > watch.due - 2 * SKEW:
                _leave_watch(worker, message, token)  # we stalled; the ticker may have dropped it
            return _leased(ready, moved.run, rescued=rescued)
        in_flight.leased_until = 0
        outcome = refused(worker, ready, moved.run, now)
        if outcome is not None:
            return outcome
        abandoned = None if moved.run is None else vanished(moved.run, now)
    return Outcome.kept("contended", at=worker.clock() + RETRY_AFTER)


def _leave_watch(worker: WorkerContext, message: Message, token: str) -> AgendaEntry:
    """Leave a watch entry before an at-most-once lease: if this worker vanishes, the run is found and declared LOST."""
    now, agenda = worker.clock(), worker.services.agenda
    shard = agenda.layout().shard_of(message.run.owner)
    due = takeable_at(lease_end(now))
    entry = AgendaEntry(shard=shard, due=due, kind=EntryKind.WATCH, id=f"{message.run}#{token}", created_at=now)
    if entry.key not in agenda.put([entry]):
        raise Unavailable("the agenda did not accept the watch of an at-most-once run; it has not started")
    return entry
