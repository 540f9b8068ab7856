"""The pipeline: the way of received messages. A single message is a batch of one.

    partition_batch ─► run_batch: admit each ─► hold_slots ─► take_leases ─► (wait for the instant) ─► jobs ─► settle ─► finish
                                                                                                 finish: acknowledge, hooks, report

A request for several runs carries a condition, a token and an answer for each, so each run is what it would be alone. A run whose lease
is refused among others goes through the pipeline again by itself. Every message is finished exactly once, whatever goes wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunState
from quarterjack.logs import AtOnce
from quarterjack.owner.backfill.control import move_on
from quarterjack.state.start import goes_ahead
from quarterjack.undertaker.success_watch import report_success
from quarterjack.worker.admission.admit import admit
from quarterjack.worker.admission.concurrency import hold_slots, return_slots
from quarterjack.worker.admission.lease import is_batchable, take_leases
from quarterjack.worker.admission.overlap import release_slot
from quarterjack.worker.ahead import await_instant, may_go_ahead
from quarterjack.worker.context import Done, WorkerContext
from quarterjack.worker.delivery.receive import acknowledge, delete_before, guarded, on_internal_error
from quarterjack.worker.execution.perform import log_start
from quarterjack.worker.execution.settle import settle_alone, settle_together
from quarterjack.worker.spans import traced_leases, traced_settlement
from quarterjack.worker.stages import ENDED, EndedRun, LeasedRun, Outcome, ReadyRun, ReceivedMessage

log = logging.getLogger(__name__)

Hook = Callable[[WorkerContext, ReceivedMessage, Outcome], None]


def partition_batch(worker: WorkerContext, batch: Sequence[ReceivedMessage]) -> list[Sequence[ReceivedMessage]]:
    """The batches that go through the pipeline together: those that may start at the same instant; what is not batchable, alone."""
    now = worker.clock()
    by_instant: dict[tuple[int, bool], dict[RunRef, ReceivedMessage]] = {}
    alone: list[Sequence[ReceivedMessage]] = []
    for received in batch:
        message = received.message
        if message is None or not is_batchable(worker, received):
            alone.append([received])
            continue
        ahead = goes_ahead(message, now) and may_go_ahead(worker, received)
        same = by_instant.setdefault((max(message.not_before, now), ahead), {})
        if message.run in same:
            alone.append([replace(received, alone=True)])
        else:
            same[message.run] = replace(received, ahead=True) if ahead else received
    return [list(by_instant[at].values()) for at in sorted(by_instant)] + alone


def start_batches(worker: WorkerContext, received: Sequence[ReceivedMessage]) -> bool:
    """Run received messages in batches, each in a thread. False if one could not be: its messages come back, and are reported by now."""
    try:
        batches = partition_batch(worker, received)
    except Exception:
        log.exception("work.defect", extra={"runs": len(received)})
        _give_up(worker, received)
        return False
    starts = [(batch, partial(worker.threads.start, partial(run_batch, worker, batch), "batch")) for batch in batches]
    begun = [_begins(worker, batch, start) for batch, start in starts]
    return all(begun)


def run_batch(worker: WorkerContext, batch: Sequence[ReceivedMessage]) -> None:
    """Work off a batch. All of it is done when each message was reported, which may be after this returns."""
    leased = list[LeasedRun]()
    try:
        leased += _lease(worker, _hold(worker, _admit(worker, batch)))
        if leased and leased[0].ahead:
            await_instant(worker, leased)
        if leased:
            with AtOnce():
                begun = [each for each in leased if not each.ahead]  # of others it is known only later when they begin
                for each in begun:
                    log_start(each)
            worker.started(begun)
            worker.executor.run(worker, leased, partial(_settle, worker))
    except Exception:
        log.exception("work.defect", extra={"runs": len(batch)})
        _give_up(worker, [*batch, *(each.received for each in leased)])


def _admit(worker: WorkerContext, batch: Sequence[ReceivedMessage]) -> list[ReadyRun]:
    """The runs that nothing keeps from their lease; the other messages are finished."""
    done, ready = list[Done](), list[ReadyRun]()
    for received in batch:
        answer = guarded(worker, received, partial(admit, worker, received))
        if isinstance(answer, Outcome):
            done.append((received, answer))
        else:
            ready.append(answer)
    finish(worker, done)
    return ready


def _hold(worker: WorkerContext, ready: Sequence[ReadyRun]) -> list[ReadyRun]:
    """The runs that have their slots; the other messages are finished."""
    answers = hold_slots(worker, ready)
    waiting = [(each.received, one) for each, one in zip(ready, answers, strict=True) if isinstance(one, Outcome)]
    finish(worker, waiting)
    return [one for one in answers if not isinstance(one, Outcome)]


def _lease(worker: WorkerContext, ready: Sequence[ReadyRun]) -> list[LeasedRun]:
    """The runs that begin. One that was refused among others goes through the pipeline again, alone; the other messages are finished."""
    done, leased = list[Done](), list[LeasedRun]()
    for each, answer in zip(ready, traced_leases(worker, ready, take_leases), strict=True):
        if isinstance(answer, Outcome):
            done.append((each.received, answer))
        elif answer is None:
            alone = replace(each.received, ahead=False, alone=True)
            _submit(worker, alone, partial(run_batch, worker, [alone]))
        else:
            leased.append(answer)
            if each.is_at_most_once:
                delete_before(worker, each.received)
    finish(worker, done)
    return leased


def _settle(worker: WorkerContext, ended: Sequence[EndedRun]) -> None:
    """Record ends, and finish their messages. Raises nothing."""
    try:
        done, left = traced_settlement(worker, ended, partial(settle_together, worker, ended))
    except Exception:
        log.exception("work.defect", extra={"runs": len(ended)})
        _give_up(worker, [leased.received for leased, _ in ended])
        return
    finish(worker, done)
    for each in left:
        _submit(worker, each[0].received, partial(_settle_alone, worker, each))


def _settle_alone(worker: WorkerContext, ended: EndedRun) -> None:
    received = ended[0].received
    settle = partial(guarded, worker, received, partial(settle_alone, worker, ended))
    finish(worker, [(received, traced_settlement(worker, [ended], settle))])


def _submit(worker: WorkerContext, received: ReceivedMessage, body: Callable[[], object]) -> None:
    """Let one message go on in a thread of its own."""
    _begins(worker, [received], partial(worker.executor.submit, worker, body))


def _begins(worker: WorkerContext, batch: Sequence[ReceivedMessage], start: Callable[[], object]) -> bool:
    """Whether a thread takes these messages on; if none can be had, they come back."""
    try:
        start()
    except Exception:
        log.exception("work.no_thread", extra={"run_ids": [str(each.in_flight.ref) for each in batch]})
        _give_up(worker, batch)
        return False
    return True


def _give_up(worker: WorkerContext, batch: Sequence[ReceivedMessage]) -> None:
    """Let those messages come back that were not finished."""
    left = {each.in_flight: each for each in batch if not each.in_flight.finished}
    finish(worker, [(each, on_internal_error(worker, each)) for each in left.values()])


def finish(worker: WorkerContext, done: Sequence[Done]) -> None:
    """The end of messages: acknowledge, call the hooks, report. Raises nothing."""
    if not done:
        return
    acknowledged = acknowledge(worker, done)
    return_slots(worker, acknowledged)
    for received, outcome in acknowledged:
        after_end(worker, received, outcome)
        received.in_flight.finish()
    worker.report(acknowledged)


# What follows from the end of a message: its run is settled and it is acknowledged before, and no hook may undo that. A hook that
# fails is logged; the ticker or the auditor repairs its omission.


def after_end(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    """Call every hook. Raises nothing."""
    for hook in HOOKS:
        try:
            hook(worker, received, outcome)
        except Exception:
            log.exception("work.hook_failed", extra={"run_id": str(received.in_flight.ref), "hook": hook.__name__})


def _release_slot(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    if received.is_exclusive:
        release_slot(worker, outcome)


def _advance_backfill(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    if outcome.message is not None and outcome.message.backfill is not None:
        move_on(outcome.message, outcome.state, received.revision, worker.services, worker.clock)


def _report_success(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    """A run that has ended before may have succeeded at a worker that could not report it; the ticker reads its row."""
    message, revision = outcome.message, received.revision
    if message is None or revision is None or not revision.failing:
        return
    if outcome.state is RunState.SUCCEEDED or outcome.why == ENDED:
        report_success(message, revision, worker.services, worker.clock)


def _count_attempt(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    """An attempt that ended, for the circuit breakers of a tenant that has some."""
    message, spec = outcome.message, received.spec
    if outcome.duration is None or message is None or spec is None or outcome.state not in _COUNTED:
        return
    tenant, now = message.run.tenant, worker.clock()
    governance = received.revisions.governance.get(tenant)
    percent = None if governance is None else governance.limits.breaker_percent
    if percent is None or outcome.why in _OF_THE_CALLER:
        return
    succeeded = outcome.state is RunState.SUCCEEDED
    worker.breakers.count(tenant, spec.job, worker.services, now, succeeded=succeeded, percent=percent)


def _return_permit(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> None:
    """A run that had a permit of its circuit breaker and no lease, as it was over or has to wait, leaves it to the next one."""
    in_flight, spec = received.in_flight, received.spec
    if in_flight.permitted and in_flight.run is None and outcome.message is not None and spec is not None:
        worker.breakers.give_back(outcome.message.run.tenant, spec.job)


_COUNTED = (RunState.SUCCEEDED, RunState.RETRYING, RunState.DEAD)
_OF_THE_CALLER = ("InvalidInput",)  # kinds of failures that say nothing of the job: the payload does not fit

HOOKS: tuple[Hook, ...] = (_release_slot, _advance_backfill, _report_success, _count_attempt, _return_permit)
