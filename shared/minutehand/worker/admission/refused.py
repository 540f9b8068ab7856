"""Refused: a lease was refused, or is not due; the row says what becomes of the message, and what is reported."""

from __future__ import annotations

import logging
from dataclasses import replace

from minutehand.domain.message import DeadLetter, Message
from minutehand.domain.run import FailedAttemptRow, RunRow, RunState
from minutehand.domain.times import SECOND
from minutehand.errors import Unavailable
from minutehand.ports.ledger import Ledger
from minutehand.ports.services import Services
from minutehand.state.ending import cancel_waiting, exhaust, expire, lose
from minutehand.state.refusal import OnRefusedLease, on_refused_lease, vanished
from minutehand.state.start import HEAD_START, HOLD, is_past_deadline
from minutehand.worker.context import WorkerContext
from minutehand.worker.stages import Action, Outcome, ReadyRun

log = logging.getLogger(__name__)

RETRY_AFTER = 5 * SECOND  # before a message comes back whose run others keep moving
_OTHERWISE = 10 * SECOND  # before a message comes back whose new order was not accepted
_VANISHED = "worker vanished in the last attempt"


def not_due(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """Wait until the run may be leased if that is near; a message that comes much too early is postponed."""
    message, now = ready.message, worker.clock()
    if message.not_before - now > HOLD[message.start]:
        return postponed(worker, ready, message.not_before, "not_due")
    worker.wait_until(message.not_before - HEAD_START if ready.ahead else message.not_before)
    return None


def expired(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """A run whose deadline has passed becomes EXPIRED, unless it is in other hands: then its lease decides."""
    message, now = ready.message, worker.clock()
    if not is_past_deadline(message.due, ready.policies, now):
        return None
    transition = expire(revision=message.revision, now=now, expires=worker.expires(now))
    moved = worker.services.ledger.move(message.run, transition)
    if not moved.applied or moved.run is None:
        return None
    report(moved.run, worker.services)
    return Outcome.refused(message, "deadline", RunState.EXPIRED)


def refused(worker: WorkerContext, ready: ReadyRun, run: RunRow | None, now: int) -> Outcome | None:
    """What a refused lease means; None: try again. ``run``: as its row is, None if there is none."""
    message = ready.message
    answer = on_refused_lease(run, revision=message.revision, now=now, policies=ready.policies)
    match answer.action:
        case OnRefusedLease.DROP:
            return Outcome.refused(message, answer.why)
        case OnRefusedLease.WAIT:
            return Outcome.kept(message, answer.why, at=answer.until + SECOND, action=Action.WAITING)
        case OnRefusedLease.POSTPONE:
            return postponed(worker, ready, answer.until, answer.why)
        case OnRefusedLease.RETRY:
            return None
        case _:
            assert run is not None
            return _end(worker, ready, run, answer.action, answer.why)


def postponed(worker: WorkerContext, ready: ReadyRun, until: int, why: str) -> Outcome:
    """The run is ordered anew for a time (UTC ms)."""
    order = replace(ready.message, not_before=until)
    return Outcome.postponed(ready.message, why, order=order, at=until, otherwise=worker.clock() + _OTHERWISE)


def _end(worker: WorkerContext, ready: ReadyRun, run: RunRow, action: OnRefusedLease, why: str) -> Outcome | None:
    """The run can have no further attempt: record its end. None if it moved meanwhile."""
    now, ledger = worker.clock(), worker.services.ledger
    expires, last = worker.expires(now), vanished(run, now)
    match action:
        case OnRefusedLease.LOSE:
            transition = lose(now=now, expires=expires, token=run.lease_token or "")
        case OnRefusedLease.CANCEL:
            transition = cancel_waiting(now=now, expires=expires, reason="requested")
        case _:
            failure = run.failure if last is None else last.failure
            worker.send_dead_letter(ready.received.delivery.body, run.fence, _VANISHED, failure)
            transition = exhaust(
                now=now,
                expires=expires,
                max_attempts=ready.policies.max_attempts,
                fence=run.fence,
                reason=_VANISHED,
                failure=failure,
            )
    moved = ledger.move(run.ref, transition)
    if not moved.applied or moved.run is None:
        return None
    if last is not None:
        record(replace(last, next_attempt_at=None), ledger)
    if moved.run.state is RunState.LOST:
        report(moved.run, worker.services)
    log.warning("run.ended", extra={"run_id": str(run.ref), "job": run.job, "state": str(transition.to), "reason": why})
    return Outcome.ended(ready.message, why, transition.to)


def record(attempt: FailedAttemptRow, ledger: Ledger) -> None:
    """Put the row of a failed attempt, if the ledger answers."""
    try:
        ledger.record(attempt)
    except Unavailable as problem:
        log.warning("attempt.not_recorded", extra={"run_id": str(attempt.run), "error": str(problem)})


def report(run: RunRow, services: Services) -> None:
    """Send the letter of a run that has ended so; none for one that is recorded already. Raises Unavailable."""
    if run.buried_at is not None:
        return
    order = Message(run=run.ref, revision=run.revision, job=run.job, due=run.due, not_before=run.not_before)
    why = run.reason or str(run.state)
    services.dead.send(DeadLetter(body=order.encode(), reason=why, fence=run.fence, state=str(run.state)))
