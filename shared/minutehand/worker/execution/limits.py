"""Limits of an attempt: its timeout, the grace after its cancellation, the loss of its lease."""

from __future__ import annotations

from collections.abc import Callable

from minutehand.domain.policies import Policies
from minutehand.domain.run import Failure
from minutehand.domain.times import SECOND
from minutehand.state.decisions import is_permanent
from minutehand.worker.context import WorkerContext
from minutehand.worker.stages import Abandoned, AttemptResult, Cancelled, Failed, LeasedRun


def timeout_of(worker: WorkerContext, leased: LeasedRun) -> int | None:
    """When the attempt that starts now is over by its timeout (UTC ms)."""
    timeout = leased.policies.timeout
    return None if timeout is None else worker.clock() + int(timeout * SECOND)


def watch(
    worker: WorkerContext,
    leased: LeasedRun,
    ends: list[AttemptResult],
    timeout_at: int | None,
    *,
    tell_cancelled: Callable[[], None] = lambda: None,
) -> AttemptResult:
    """Wait for the job's end, or for what ends it. ``tell_cancelled`` is called while its cancellation is asked for."""
    in_flight = leased.in_flight
    with in_flight.changed:
        while True:
            if ends:
                return ends[0]
            if in_flight.lost:
                return Abandoned()
            limit = limit_of(leased, timeout_at, worker.clock())
            if isinstance(limit, (Failed, Cancelled)):
                return limit
            if in_flight.cancel_seen is not None:
                tell_cancelled()
            in_flight.changed.wait(limit)


def limit_of(leased: LeasedRun, timeout_at: int | None, now: int) -> Failed | Cancelled | float | None:
    """How the job ends now by one of its limits, or else the seconds until the next one (None: there is none)."""
    in_flight, policies = leased.in_flight, leased.policies
    limits = []
    if timeout_at is not None:
        limits.append(timeout_at - now)
        if now >= timeout_at:
            return Failed(timed_out(policies))
    if in_flight.cancel_seen is not None:
        grace_ends = in_flight.cancel_seen + int(policies.cancel_grace * SECOND)
        limits.append(grace_ends - now)
        if now >= grace_ends:
            return Cancelled(f"did not end within {policies.cancel_grace:g} s of its cancellation")
    return min(limits) / SECOND if limits else None


def timed_out(policies: Policies) -> Failure:
    """The failure of an attempt that took longer than its timeout."""
    kinds = ("Timeout", *(kind.__name__ for kind in TimeoutError.__mro__))
    return Failure(
        kind="Timeout",
        message=f"the attempt took longer than its timeout of {policies.timeout:g} s",
        permanent=is_permanent(kinds, None, policies.retry),
    )
