"""Settle: record how attempts ended, each under its fence. Its message goes only after that.

A process that stops gives its runs back, so that other workers start them at once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from quarterjack.domain.message import INLINE_PAYLOAD
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import Failure
from quarterjack.domain.times import SECOND
from quarterjack.errors import QuarterjackError, Unavailable
from quarterjack.logs import AtOnce
from quarterjack.owner.runs.change import cancel_all, end_children
from quarterjack.state.lease import cancelled, continue_, die, release, retry, succeed
from quarterjack.state.retry import GiveUp, after_failure
from quarterjack.state.transition import Transition
from quarterjack.state.waits.park import kind_of_wait
from quarterjack.stores.ledger import TransitionResult
from quarterjack.stores.siblings import BESIDE, RESULT_NAME, BesideKind
from quarterjack.values import replace
from quarterjack.worker.admission.concurrency import give_back
from quarterjack.worker.ahead import dated
from quarterjack.worker.context import Done, WorkerContext
from quarterjack.worker.delivery.receive import on_failure
from quarterjack.worker.delivery.visibility import InFlightMessage
from quarterjack.worker.execution.failed import record_failure, send_verdict
from quarterjack.worker.execution.park import (
    asked_to_end,
    is_messaged,
    is_over_already,
    keep_record,
    leave_timer,
    not_before_of,
    parking,
)
from quarterjack.worker.execution.perform import judged, log_end, presentable
from quarterjack.worker.stages import (
    Abandoned,
    Acknowledgement,
    Action,
    AttemptResult,
    Cancelled,
    EndedRun,
    Failed,
    LeasedRun,
    NotBegun,
    Outcome,
    Parked,
    Returned,
    SliceEnded,
)

log = logging.getLogger(__name__)

SMALL_RESULT = 400  # bytes of a result in the run's own row; more lies beside it
_PATIENCE = (1, 2, 4, 8, 15)  # seconds between tries: half a lease, then the run is given to another worker
_UNANSWERED = 10 * SECOND  # before a message comes back whose outcome could not be recorded
_LONGEST = 600 * SECOND  # before a message comes back whose new order was not accepted, at most


class Settlement(NamedTuple):
    """What is written of an end."""

    transition: Transition
    why: str
    at: int  # UTC ms of the attempt's end, the same in the run, in its attempt's row and in the log
    next_at: int | None = None  # UTC ms at which the run goes on; None: not by a new message
    failure: Failure | None = None  # of the failed attempt, whose row follows


def settle_runs(worker: WorkerContext, ended: Sequence[EndedRun]) -> tuple[list[Done], list[EndedRun]]:
    """Record the plain successes in one request; and the other ends, judged and masked, for ``settle_run``."""
    ended = [(leased, presentable(leased, judged(leased, result))) for leased, result in ended]
    now = worker.clock()
    plain = {
        leased.run.ref: _settlement_of(worker, leased, result, now)
        for leased, result in ended
        if isinstance(result, Returned) and _is_plain(leased, result)
    }
    moves = [(ref, settlement.transition) for ref, settlement in plain.items()]
    answers: Mapping[RunRef, bool] = {}
    try:
        if moves:
            answers = worker.services.ledger.move_all(moves)
    except Exception:
        log.exception("work.settlements_failed", extra={"runs": len(moves)})
    done, left = list[Done](), list[EndedRun]()
    with AtOnce():
        for leased, result in ended:
            applied = answers.get(leased.run.ref)
            if applied is None:
                left.append((leased, result))
            else:
                outcome = _outcome(worker, leased, plain[leased.run.ref], applied=applied)
                log_end(leased, outcome, result)
                done.append((leased.received, outcome))
    return done, left


def settle_run(worker: WorkerContext, ended: EndedRun) -> Outcome:
    """Record an end that ``settle_runs`` has left, with further tries while the ledger does not answer."""
    leased, result = ended
    try:
        outcome = _settled(worker, leased, result)
    except Exception as problem:  # noqa: BLE001 (on_failure logs it)
        return on_failure(worker, leased.received, problem)
    if outcome.duration is None and not isinstance(result, NotBegun):  # it ended, but its end was not recorded
        outcome = replace(outcome, duration=worker.clock() - leased.began_at)
    log_end(leased, outcome, result)
    return outcome


def _settled(worker: WorkerContext, leased: LeasedRun, result: AttemptResult) -> Outcome:
    if leased.in_flight.lost or isinstance(result, Abandoned):
        return _lost(leased)
    if isinstance(result, Cancelled):
        if leased.submitted or leased.mapped:  # its row does not name these yet
            cancel_all(leased.run.ref, leased.submitted, leased.mapped, worker.role)
        row = replace(leased.run, cancel_requested=True)
        end_children(row, worker.role)  # the owner's call may have ended before that
    settlement = _settlement_of(worker, leased, result, worker.clock())
    if settlement.transition.name == "die":
        send_verdict(worker, leased, str(settlement.transition.changes["reason"]), settlement.failure, settlement.at)
    parks = isinstance(result, Parked)
    if isinstance(result, Parked):
        keep_record(worker, leased, result)
        leave_timer(worker, leased, result)
    moved = _move(worker, leased, settlement.transition)
    if moved is None:
        return Outcome.kept("unavailable", at=worker.clock() + _UNANSWERED)
    if parks and not moved.applied and asked_to_end(leased, moved.run):
        return _settled(worker, leased, Cancelled("requested"))
    if parks and moved.applied and is_over_already(worker, moved.run):
        settlement = settlement._replace(next_at=worker.clock())
    outcome = _outcome(worker, leased, settlement, applied=moved.applied)
    if moved.applied:  # the run's row has the failure in short: to lose this one loses detail only
        record_failure(worker, leased, settlement.failure, settlement.at, settlement.next_at)
    return outcome


# What is written.


def _is_plain(leased: LeasedRun, returned: Returned) -> bool:
    """Whether one write records the success, so that it can share its request."""
    if leased.in_flight.lost or leased.run.payload_beside:
        return False
    return returned.result is None or len(returned.result) <= SMALL_RESULT


def _settlement_of(worker: WorkerContext, leased: LeasedRun, result: AttemptResult, now: int) -> Settlement:
    """The one builder of it, for an attempt that has ended by now (UTC ms)."""
    now, fence = leased.run.end_time(now), leased.run.fence
    match result:
        case Returned():
            settlement = _success(worker, leased, result, now)
        case Failed(failure):
            settlement = _failed(worker, leased, failure, now)
        case SliceEnded():
            settlement = Settlement(continue_(fence=fence, now=now), "slice ended", now, next_at=now)
        case Parked():
            move = parking(worker, leased, result, now)
            next_at = not_before_of(leased, result) if is_messaged(result, now) else None
            settlement = Settlement(move, kind_of_wait(result.awaits), now, next_at=next_at)
        case Cancelled(reason, failure):
            expires = worker.expires(now)
            move = cancelled(fence=fence, now=now, expires=expires, reason=reason, failure=failure)
            settlement = Settlement(move, "cancelled", now)
        case _:  # NotBegun. Who receives the message next sees what its owner has done meanwhile.
            settlement = Settlement(release(fence=fence, now=now, begun=False), "too_late_for_its_instant", now)
    return settlement._replace(transition=dated(leased, settlement.transition)) if leased.ahead else settlement


def _success(worker: WorkerContext, leased: LeasedRun, returned: Returned, now: int) -> Settlement:
    """A large result is stored beside the row, or in the bucket; the row names it only once it is settled."""
    text, note, address, run = returned.result, returned.note, None, leased.run
    if text is not None and len(text) > SMALL_RESULT:
        expires = worker.expires_with(run)
        try:
            if len(text) > INLINE_PAYLOAD:
                address = worker.services.payloads.keep(run.ref.tenant, text)
            else:
                worker.services.siblings.keep(
                    run.ref, fence=run.fence, kind=BesideKind.RESULT, name=RESULT_NAME, text=text, expires=expires
                )
                address = BESIDE
        except QuarterjackError as problem:  # no bucket, or none that answers: the job's work is done all the same
            note = f"result not kept: {problem}"[:200]
        text, now = None, run.end_time(worker.clock())  # anew: to store the result took its time
    move = succeed(fence=run.fence, now=now, expires=worker.expires(now), result=text, result_ref=address, reason=note)
    return Settlement(move, note or "", now)


def _failed(worker: WorkerContext, leased: LeasedRun, failure: Failure, now: int) -> Settlement:
    run, chance = leased.run, worker.random.random()
    what = after_failure(failure, attempt=run.attempt, due=run.due, policies=leased.policies, now=now, chance=chance)
    if isinstance(what, GiveUp):
        expires = worker.expires(now)
        move = die(fence=run.fence, now=now, expires=expires, reason=what.reason, failure=failure)
        return Settlement(move, failure.kind, now, failure=failure)
    move = retry(fence=run.fence, not_before=what.at, failure=failure)
    return Settlement(move, failure.kind, now, next_at=what.at, failure=failure)


# The write.


def _move(worker: WorkerContext, leased: LeasedRun, transition: Transition) -> TransitionResult | None:
    """Apply a transition, patiently: the job's effect has happened. None if the ledger did not answer."""
    ref = leased.run.ref
    for seconds in (*_PATIENCE, None):
        try:
            return worker.services.ledger.move(ref, transition)
        except Unavailable as problem:
            extra = {"run_id": str(ref), "transition": transition.name, "error": str(problem)}
            log.warning("settle.unavailable", extra=extra)
            if seconds is not None:
                worker.wait(seconds)
    return None


# What came of it.


def _outcome(worker: WorkerContext, leased: LeasedRun, settlement: Settlement, *, applied: bool) -> Outcome:
    leased.in_flight.settled, leased.in_flight.leased_until = True, 0
    if not applied:
        return _lost(leased)
    message, run, transition = leased.message, leased.run, settlement.transition
    if transition.name == "release":
        log.warning("run.released", extra={"run_id": str(run.ref), "tenant": run.ref.tenant})
        return Outcome.kept(settlement.why, at=worker.clock())
    outcome = Outcome(
        action=Action.SETTLED,
        why=settlement.why,
        state=transition.to,
        start_lag=run.lateness if leased.should_be_in_time else None,
        attempt=run.attempt,
        duration=settlement.at - leased.began_at,
    )
    if settlement.next_at is None:
        return outcome
    order = replace(message, not_before=settlement.next_at, fence=run.fence, unknown_since=None)
    return replace(
        outcome,
        acknowledgement=Acknowledgement.RESEND,
        order=order,
        at=settlement.next_at,
        otherwise=min(settlement.next_at, worker.clock() + _LONGEST),
    )


def _lost(leased: LeasedRun) -> Outcome:
    """Another worker may have the run: write nothing, delete nothing, and say so."""
    log.error("lease.lost", extra={"run_id": str(leased.run.ref), "job": leased.job.name})
    return Outcome.left(Action.LOST, "lease_lost")


def release_run(worker: WorkerContext, in_flight: InFlightMessage) -> bool:
    """Give a run back that this process will not finish. False if it cannot be. Raises Unavailable.

    An at-most-once run is never given back: its watch finds it, and it is LOST.
    """
    if in_flight.at_most_once:
        return False
    lease = in_flight.lease
    if lease is not None and not in_flight.settled:
        transition = release(fence=lease.run.fence, now=worker.clock(), begun=not lease.unbegun)
        if not worker.services.ledger.move(in_flight.ref, transition).applied:
            in_flight.leased_until = 0
            in_flight.lose()
            return False
        in_flight.leased_until = 0
    in_flight.lose()
    give_back(worker, [(in_flight, lease is not None)])
    worker.heartbeat.let_go([in_flight])
    worker.services.work.hide([in_flight.receipt], 0)
    return True
