"""What follows the end of a message: its run is settled and the message acknowledged before, and no hook may undo that.

A hook that fails is logged; the ticker or the auditor repairs its omission.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from quarterjack.domain.run import RunState
from quarterjack.domain.times import SECOND
from quarterjack.fires.parking import tell_end
from quarterjack.owner.backfill.advance import move_on
from quarterjack.undertaker.success_watch import report_success
from quarterjack.values import replace
from quarterjack.worker.admission.overlap import release_turn
from quarterjack.worker.context import Done, WorkerContext
from quarterjack.worker.stages import ENDED, Acknowledgement, Outcome, ReceivedMessage

log = logging.getLogger(__name__)

_TOLD_AGAIN = 10 * SECOND  # before the message of a child comes back whose parent could not be told

Hook = Callable[[WorkerContext, ReceivedMessage, Outcome], None]


def tell_parents(worker: WorkerContext, done: Sequence[Done]) -> list[Done]:
    """Before the messages of ended runs go: tell those that wait for their ends. A message comes back if that fails."""
    told = list[Done]()
    for received, outcome in done:
        after = outcome
        if outcome.is_over and isinstance(received, ReceivedMessage):
            lease = received.in_flight.lease
            run = received.definition.row if lease is None else lease.run
            try:
                if run is not None and (run.parent is not None or run.unique is not None):
                    ended = run if outcome.state is None else replace(run, state=outcome.state)
                    tell_end(ended, worker.services, worker.clock, again=received.delivery.receives > 1)
            except Exception:  # whatever it is, its message comes back and tells it again
                log.exception("work.parent_not_told", extra={"run_id": str(received.in_flight.ref)})
                at = worker.clock() + _TOLD_AGAIN
                after = replace(outcome, acknowledgement=Acknowledgement.SHOW, at=at)
        told.append((received, after))
    return told


def after_end(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    """Call every hook for a message that could be read. Raises nothing."""
    for hook in HOOKS:
        try:
            hook(worker, received, outcome)
        except Exception:
            log.exception("work.hook_failed", extra={"run_id": str(received.in_flight.ref), "hook": hook.__name__})


def _release_turn(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    if received.definition.is_exclusive:
        release_turn(worker, received.message, outcome)


def _advance_backfill(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    if received.message.backfill is not None:
        move_on(received.message, outcome.state, received.definition.revision, worker.services, worker.clock)


def _report_success(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    """A run that has ended before may have succeeded at a worker that could not report it; the ticker reads its row."""
    revision = received.definition.revision
    if revision is None or not revision.failing:
        return
    if outcome.state is RunState.SUCCEEDED or outcome.why == ENDED:
        report_success(received.message, revision, worker.services, worker.clock)


def _count_attempt(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    """An attempt that ended, for the circuit breakers of a tenant that has some."""
    spec, governance = received.definition.spec, received.definition.governance
    if outcome.duration is None or spec is None or governance is None or outcome.state not in _COUNTED:
        return
    percent = governance.limits.breaker_percent
    if percent is None or outcome.why in _OF_THE_CALLER:
        return
    now, succeeded = worker.clock(), outcome.state is RunState.SUCCEEDED
    worker.breakers.count(governance.tenant, spec.job, worker.services, now, succeeded=succeeded, percent=percent)


def _return_probe(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    """A run that had a probe of its circuit breaker and no lease, as it was over or has to wait, leaves it to the next one."""
    del outcome
    in_flight, spec = received.in_flight, received.definition.spec
    if in_flight.has_probe and in_flight.lease is None and spec is not None:
        worker.breakers.give_back(in_flight.ref.tenant, spec.job)


_COUNTED = (RunState.SUCCEEDED, RunState.RETRYING, RunState.DEAD)
_OF_THE_CALLER = ("InvalidInput",)  # kinds of failures that say nothing of the job: the payload does not fit

HOOKS: tuple[Hook, ...] = (_release_turn, _advance_backfill, _report_success, _count_attempt, _return_probe)
