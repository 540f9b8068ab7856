"""Release: a process that stops gives its runs back, so that other workers start them at once."""

from __future__ import annotations

from minutehand.state.transitions.settling import release
from minutehand.worker.context import WorkerContext
from minutehand.worker.stages import InFlightMessage


def release_run(worker: WorkerContext, in_flight: InFlightMessage) -> bool:
    """Give a run back that this process will not finish. False if it cannot be. Raises Unavailable.

    An at-most-once run is never given back: its watch finds it, and it is LOST.
    """
    if in_flight.at_most_once:
        return False
    fence = in_flight.fence
    if fence is not None:
        transition = release(fence=fence, now=worker.clock(), begun=not in_flight.unbegun)
        if not worker.services.ledger.move(in_flight.ref, transition).applied:
            in_flight.lose()
            return False
    in_flight.lose()
    worker.heartbeat.let_go(in_flight)
    worker.services.work.hide([in_flight.receipt], 0)
    return True
