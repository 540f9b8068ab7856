"""The pipeline of the worker: every message goes through these functions, in this order. A single message is a batch of one.

    receive ─► start_batches ─► run_batch:  admit ─► take permits ─► lease ─► run ─► settle ─► finish

Each step takes the runs that the step before let through, and finishes the messages of the others. A run that cannot share a request
with the others of its batch goes on as a batch of one. Every message is finished exactly once, whatever fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Unpack

from quarterjack.concurrency.pools import Arguments
from quarterjack.logs import AtOnce
from quarterjack.values import replace
from quarterjack.worker.admission.admit import admit
from quarterjack.worker.admission.concurrency import hold_permits, return_permits
from quarterjack.worker.admission.lease import lease_runs
from quarterjack.worker.after_end import after_end, tell_parents
from quarterjack.worker.ahead import await_instant
from quarterjack.worker.context import Done, WorkerContext
from quarterjack.worker.delivery.receive import (
    acknowledge,
    delete_before,
    on_failure,
    on_internal_error,
    partition_batch,
)
from quarterjack.worker.execution.perform import log_start
from quarterjack.worker.execution.settle import settle_run, settle_runs
from quarterjack.worker.spans import lease_spans, settle_spans
from quarterjack.worker.stages import AnyMessage, EndedRun, LeasedRun, Outcome, ReadyRun, ReceivedMessage

log = logging.getLogger(__name__)


def start_batches(worker: WorkerContext, received: Sequence[AnyMessage]) -> bool:
    """Run received messages in batches, each in a thread. False if a thread was missing: its messages come back, and are reported."""
    try:
        batches = partition_batch(worker, received)
    except Exception:
        log.exception("work.defect", extra={"runs": len(received)})
        _give_back(worker, received)
        return False
    started = [_start(worker, batch, run_batch, worker, batch) for batch in batches]
    return all(started)


def run_batch(worker: WorkerContext, batch: Sequence[AnyMessage]) -> None:
    """Take a batch through all steps. When it returns, each message was reported, or a batch of one has it. Raises nothing."""
    leased = list[LeasedRun]()
    try:
        ready = _admit(worker, batch)
        permitted = _take_permits(worker, ready)
        leased += _lease(worker, permitted)
        if leased and leased[0].ahead:
            await_instant(worker, leased)
        if leased:
            _announce(worker, leased)
            for ended in worker.executor.run(worker, leased):
                settle(worker, ended)
    except Exception:
        log.exception("work.defect", extra={"runs": len(batch)})
        _give_back(worker, [*batch, *(each.received for each in leased)])


def _admit(worker: WorkerContext, batch: Sequence[AnyMessage]) -> list[ReadyRun]:
    """The runs that nothing keeps from their lease."""
    done, ready = list[Done](), list[ReadyRun]()
    for received in batch:
        try:
            answer = admit(worker, received)
        except Exception as problem:  # noqa: BLE001 (on_failure logs it)
            answer = on_failure(worker, received, problem)
        if isinstance(answer, Outcome):
            done.append((received, answer))
        else:
            ready.append(answer)
    finish(worker, done)
    return ready


def _take_permits(worker: WorkerContext, ready: Sequence[ReadyRun]) -> list[ReadyRun]:
    """The runs that have the permits of all their concurrency caps."""
    done, permitted = list[Done](), list[ReadyRun]()
    for each, answer in zip(ready, hold_permits(worker, ready), strict=True):
        if isinstance(answer, Outcome):
            done.append((each.received, answer))
        else:
            permitted.append(answer)
    finish(worker, done)
    return permitted


def _lease(worker: WorkerContext, ready: Sequence[ReadyRun]) -> list[LeasedRun]:
    """The runs that this worker holds the lease of. A run that was refused among others goes on as a batch of one."""
    done, leased = list[Done](), list[LeasedRun]()
    with lease_spans(worker, ready):
        answers = lease_runs(worker, ready)
    for each, answer in zip(ready, answers, strict=True):
        if isinstance(answer, Outcome):
            done.append((each.received, answer))
        elif answer is None:
            alone = [replace(each.received, ahead=False, alone=True)]
            _start(worker, alone, run_batch, worker, alone)
        else:
            leased.append(answer)
            if each.is_at_most_once:
                delete_before(worker, each.received)
    finish(worker, done)
    return leased


def _announce(worker: WorkerContext, leased: Sequence[LeasedRun]) -> None:
    """Log and report the runs that begin now; a run that was leased ahead is announced when its job begins."""
    begun = [each for each in leased if not each.ahead]
    with AtOnce():
        for each in begun:
            log_start(each)
    if begun:
        worker.started(begun)


def settle(worker: WorkerContext, ended: Sequence[EndedRun]) -> None:
    """Record how jobs ended, and finish their messages. Raises nothing."""
    try:
        with settle_spans(worker, ended):
            done, left = settle_runs(worker, ended)
    except Exception:
        log.exception("work.defect", extra={"runs": len(ended)})
        _give_back(worker, [leased.received for leased, _ in ended])
        return
    finish(worker, done)
    for each in left:
        _start(worker, [each[0].received], _settle_run, worker, each)


def _settle_run(worker: WorkerContext, ended: EndedRun) -> None:
    """Record an end that cannot share a request. It may take its time, and holds up no other run of its batch."""
    with settle_spans(worker, [ended]):
        outcome = settle_run(worker, ended)
    finish(worker, [(ended[0].received, outcome)])


def finish(worker: WorkerContext, done: Sequence[Done]) -> None:
    """The end of messages: tell parents, acknowledge, return permits, call the hooks, report. Raises nothing."""
    if not done:
        return
    acknowledged = acknowledge(worker, tell_parents(worker, done))
    return_permits(worker, acknowledged)
    for received, outcome in acknowledged:
        if isinstance(received, ReceivedMessage):
            after_end(worker, received, outcome)
        received.in_flight.finished = True
        worker.quarantine.leave(received.in_flight)
    worker.report(acknowledged)


def _start(
    worker: WorkerContext,
    batch: Sequence[AnyMessage],
    body: Callable[[Unpack[Arguments]], object],
    *arguments: *Arguments,
) -> bool:
    """Let a batch go on in a thread of its own. False if there is none: its messages come back."""
    try:
        worker.executor.start(worker, body, *arguments)
    except Exception:
        log.exception("work.no_thread", extra={"run_ids": [str(each.in_flight.ref) for each in batch]})
        _give_back(worker, batch)
        return False
    return True


def _give_back(worker: WorkerContext, batch: Sequence[AnyMessage]) -> None:
    """Let the messages come back that were not finished."""
    left = {each.in_flight: each for each in batch if not each.in_flight.finished}
    finish(worker, [(each, on_internal_error(worker)) for each in left.values()])
