"""Due: a run waits for its time, and does not start past its deadline."""

from __future__ import annotations

from dataclasses import replace

from minutehand.domain.run import RunState
from minutehand.domain.times import SECOND
from minutehand.state.deadline import is_past_deadline
from minutehand.state.start import HOLD
from minutehand.state.transitions.ending import expire
from minutehand.worker.admission.report import report
from minutehand.worker.ahead import lease_from
from minutehand.worker.context import WorkerContext
from minutehand.worker.delivery.outcome import Outcome
from minutehand.worker.stages import ReadyRun

OTHERWISE = 10 * SECOND  # before a message comes back whose new order was not accepted


def not_due(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """Wait until the run may be leased if that is near; a message that comes much too early is postponed."""
    message, now = ready.message, worker.clock()
    if message.not_before - now > HOLD[message.start]:
        return postponed(worker, ready, message.not_before, "not_due")
    worker.wait_until(lease_from(ready.received, message))
    return None


def postponed(worker: WorkerContext, ready: ReadyRun, until: int, why: str) -> Outcome:
    """The run is ordered anew for a time (UTC ms)."""
    order = replace(ready.message, not_before=until)
    return Outcome.postponed(ready.message, why, order=order, at=until, otherwise=worker.clock() + OTHERWISE)


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
