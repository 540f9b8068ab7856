"""Leases ahead of exact starts: the seam. Skip this module at a first reading; all that it changes elsewhere are these calls.

A run with ``start="exact"`` that needs nothing but a lease is leased up to HEAD_START before its instant, as of that instant: to the
ledger this is a worker whose clock is so much fast. Its job begins when the instant has come, and not TOO_LATE after it: then the run
is given back (docs/adr/0028-leases-ahead.md).

    partition_batch   may_go_ahead      which runs
    not_due           HEAD_START        from when on
    run_batch         await_instant     all that this process has leased for one instant begin together
    executor          begin             only here is it known when
    settle            dated             the settlement says when the job began, as its lease could not
"""

from __future__ import annotations

from quarterjack.state.start import TOO_LATE
from quarterjack.state.transition import Transition
from quarterjack.values import replace
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.delivery.visibility import Lease
from quarterjack.worker.stages import LeasedRun, NotBegun, ReceivedMessage


def may_go_ahead(worker: WorkerContext, received: ReceivedMessage) -> bool:
    """Whether a run that goes ahead of its instant may, by its job's policies.

    A worker that dies before the instant must leave it an attempt: nobody can tell that its job had not begun.
    """
    spec = received.definition.spec
    job = None if spec is None else worker.jobs.get(spec.job)
    return spec is not None and job is not None and job.policies.overridden(spec.overrides).max_attempts > 1


def await_instant(worker: WorkerContext, leased: list[LeasedRun]) -> None:
    """Wait for the instant of runs that were leased ahead, one at least. ``leased`` has all runs of this process then that wait.

    Hundreds of threads that wake at once would take turns for as long as their jobs take together; one that starts them all does
    not. So the first batch that comes waits for the instant, and the others hand their runs over: for them ``leased`` is empty.
    """
    instant, mine = leased[0].message.not_before, list(leased)
    leased.clear()
    if not worker.instants.join(instant, mine):
        return
    try:
        worker.wait_until(instant)
    finally:  # whatever happens, the others' runs are this batch's now
        leased += worker.instants.take(instant)


def begin(worker: WorkerContext, leased: LeasedRun) -> NotBegun | None:
    """The job of a run that was leased ahead begins now, unless it is too late for its instant."""
    now = worker.clock()
    in_time = now <= leased.message.not_before + TOO_LATE
    leased.run = replace(leased.run, started_at=now if in_time else None)
    if not in_time:
        return NotBegun()
    leased.in_flight.lease = Lease(run=leased.run)
    return None


def dated(leased: LeasedRun, transition: Transition) -> Transition:
    """With when the job of a run that was leased ahead began: its lease said only when it should."""
    return replace(transition, changes={**transition.changes, "started_at": leased.run.started_at})
