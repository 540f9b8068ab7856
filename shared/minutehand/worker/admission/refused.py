"""Refused: a lease was refused; the row that refused it says what becomes of the message, and perhaps of the run."""

from __future__ import annotations

import logging
from dataclasses import replace

from minutehand.domain.run import RunRow, RunState
from minutehand.domain.times import SECOND
from minutehand.state.lease_refusal import OnRefusedLease, on_refused_lease, vanished
from minutehand.state.transitions.ending import cancel_waiting, exhaust, lose
from minutehand.state.transitions.transition import Transition
from minutehand.worker.admission.attempts import record
from minutehand.worker.admission.due import postponed
from minutehand.worker.admission.report import report
from minutehand.worker.context import WorkerContext
from minutehand.worker.delivery.outcome import Outcome
from minutehand.worker.stages import ReadyRun

log = logging.getLogger(__name__)

RETRY_AFTER = 5 * SECOND  # before a message comes back whose run others keep moving
_VANISHED = "worker vanished in the last attempt"


def refused(worker: WorkerContext, ready: ReadyRun, run: RunRow | None, now: int) -> Outcome | None:
    """What a refused lease means; None: try again. ``run``: as its row is, None if there is none."""
    message = ready.message
    answer = on_refused_lease(run, revision=message.revision, now=now, policies=ready.policies)
    match answer.action:
        case OnRefusedLease.DROP:
            return Outcome.refused(message, answer.why)
        case OnRefusedLease.WAIT:
            return Outcome.waiting(message, answer.why, at=answer.until + SECOND)
        case OnRefusedLease.POSTPONE:
            return postponed(worker, ready, answer.until, answer.why)
        case OnRefusedLease.RETRY:
            return None
        case _:
            assert run is not None
            return _end(worker, ready, run, answer.action, answer.why)


def _end(worker: WorkerContext, ready: ReadyRun, run: RunRow, action: OnRefusedLease, why: str) -> Outcome | None:
    """The run can have no further attempt: record its end. None if it moved meanwhile."""
    last = vanished(run, worker.clock())
    failure = run.failure if last is None else last.failure
    if action is OnRefusedLease.EXHAUST:
        worker.send_dead_letter(ready.received.delivery.body, run.fence, _VANISHED, failure)
    transition = _ending(worker, ready, run, action)
    moved = worker.services.ledger.move(run.ref, transition)
    if not moved.applied or moved.run is None:
        return None
    if last is not None:
        record(replace(last, next_attempt_at=None), worker.services.ledger)
    if moved.run.state is RunState.LOST:
        report(moved.run, worker.services)
    log.warning("run.ended", extra={"run_id": str(run.ref), "job": run.job, "state": str(transition.to), "reason": why})
    return Outcome.ended(ready.message, why, transition.to)


def _ending(worker: WorkerContext, ready: ReadyRun, run: RunRow, action: OnRefusedLease) -> Transition:
    now = worker.clock()
    expires, last = worker.expires(now), vanished(run, now)
    match action:
        case OnRefusedLease.LOSE:
            return lose(now=now, expires=expires, token=run.lease_token or "")
        case OnRefusedLease.CANCEL:
            return cancel_waiting(now=now, expires=expires, reason="requested")
        case _:
            return exhaust(
                now=now,
                expires=expires,
                max_attempts=ready.policies.max_attempts,
                fence=run.fence,
                reason=_VANISHED,
                failure=run.failure if last is None else last.failure,
            )
