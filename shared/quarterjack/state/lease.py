"""A lease: how long it lasts, when it has lapsed, and the transitions that take it, renew it, and settle its attempt.

Each settling is conditional on RUNNING and the fence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from quarterjack.domain.run import Failure, RunRow, RunState
from quarterjack.domain.times import SECOND
from quarterjack.state.transition import (
    NEVER_LEASED,
    NOT_CANCELLED,
    READY,
    RUNNING,
    Change,
    Compare,
    Condition,
    EndWords,
    Once,
    Plus,
    Transition,
    all_of,
    any_of,
    due,
    ending,
    failure_changes,
    held,
    in_state,
    in_state_under,
    of_backfill,
    of_epoch,
    same_fence,
    same_revision,
)

LEASE = 60 * SECOND  # how long a worker may be silent before another worker may take its run
HEARTBEAT = 20 * SECOND  # LEASE - HEARTBEAT > SKEW + the longest tolerated pause of a process
SKEW = 10 * SECOND  # how far clocks may differ before a live lease is stolen

_COUNTED: Mapping[str, Change] = {"fence": Plus(1), "attempt": Plus(1), "slices": Once(0)}
_NEVER_FENCED = same_fence(0)
_FIRST: Mapping[str, Change] = {"fence": 1, "attempt": 1, "slices": 0}


def lease_end(now: int) -> int:
    """Until when (UTC ms) a lease lasts that is taken or renewed now."""
    return now + LEASE


def last_renewal(lease_until: int) -> int:
    """When (UTC ms) a lease was taken or last renewed."""
    return lease_until - LEASE


def takeable_at(lease_until: int) -> int:
    """When (UTC ms) everybody may take a run whose lease was not renewed: ``abandoned`` holds, with a second to spare."""
    return lease_until + SKEW + SECOND


def has_live_lease(run: RunRow, now: int) -> bool:
    """Whether a worker may still hold the run by its own clock."""
    return run.state is RunState.RUNNING and (run.lease_until or 0) >= now - SKEW


def abandoned(now: int) -> Condition:
    """The guard's form of a lapsed lease: RUNNING and not ``has_live_lease``."""
    return all_of(RUNNING, Compare("lease_until", "<", now - SKEW))


def lease(
    *,
    revision: int,
    now: int,
    token: str,
    worker: str,
    max_attempts: int,
    steal: bool,
    first: bool = False,
    backfill: str | None = None,
    seen_fence: int = 0,
    published: int | None = None,
    bound_to: str | None = None,
) -> Transition:
    """A worker leases the run of this revision and backfill. ``steal``: an abandoned run may be leased too (never with at-most-once).

    ``published`` is when its message was sent (UTC ms; None: not known). ``bound_to``: only a run of this application version.

    ``seen_fence``: of the run when its message was sent: see ``of_epoch``.

    ``first``: only a run that was never leased. Then the guard has no alternatives and no change depends on the row, so many runs
    can be leased in one batch.
    """
    startable = NEVER_LEASED if first else any_of(READY, abandoned(now)) if steal else READY
    untouched = _NEVER_FENCED if first else all_of(Compare("attempt", "<", max_attempts), of_epoch(seen_fence))
    counted = _FIRST if first else _COUNTED
    guard = all_of(same_revision(revision), of_backfill(backfill), due(now), NOT_CANCELLED, untouched, startable)
    if bound_to is not None:
        guard = all_of(guard, Compare("app_version", "=", bound_to))
    return Transition(
        name="lease",
        to=RunState.RUNNING,
        guard=guard,
        changes={
            "state": RunState.RUNNING,
            "max_attempts": max_attempts,
            "lease_until": lease_end(now),
            "lease_token": token,
            "leased_at": now,
            "published_at": published,
            "worker": worker,
            "reason": None,
            "started_at": now if first else Once(now),
            **counted,
        },
        already=all_of(RUNNING, Compare("lease_token", "=", token)),
    )


def renew(*, fence: int, now: int, progress: float | None = None, stage: str | None = None) -> Transition:
    """A heartbeat: the holder extends the lease, and stores its progress (0 to 1; thousandths in the row)."""
    changes: dict[str, Change] = {"lease_until": lease_end(now)}
    if progress is not None:
        changes["progress"] = round(progress * 1_000)
    if stage is not None:
        changes["stage"] = stage
    return Transition(name="renew", to=None, guard=held(fence), changes=changes, already=held(fence))


def _ended(
    name: str, to: RunState, fence: int, more: Mapping[str, Change] | None = None, **end: Unpack[EndWords]
) -> Transition:
    own = same_fence(fence)
    return ending(name, to, all_of(RUNNING, own), more=more, already=all_of(in_state(to), own), **end)


def _waiting(name: str, to: RunState, fence: int, not_before: int, reason: str, **more: Change) -> Transition:
    """The attempt is over, and the run waits for its next one from ``not_before`` on (UTC ms)."""
    changes: dict[str, Change] = {
        "state": to,
        "not_before": not_before,
        "lease_until": None,
        "lease_token": None,
        "reason": reason,
        **more,
    }
    return Transition(name=name, to=to, guard=held(fence), changes=changes, already=in_state_under(to, fence))


def succeed(
    *,
    fence: int,
    now: int,
    expires: int,
    result: str | None = None,
    result_ref: str | None = None,
    reason: str | None = None,
) -> Transition:
    """The job returned; ``result`` is its JSON text, or ``result_ref`` the key of the text."""
    stored: dict[str, Change] = {} if result is None else {"result": result}
    if result_ref is not None:
        stored["result_ref"] = result_ref
    return _ended("succeed", RunState.SUCCEEDED, fence, stored, now=now, expires=expires, reason=reason)


def continue_(*, fence: int, now: int) -> Transition:
    """A slice ended at its checkpoint; the next slice starts at once and is no new attempt."""
    return _waiting("continue", RunState.CONTINUED, fence, now, "slice ended", attempt=Plus(-1), slices=Plus(1))


def cancelled(*, fence: int, **end: Unpack[EndWords]) -> Transition:
    """A running job ended, or its worker stopped waiting for it, after a request to cancel it."""
    return _ended("cancelled", RunState.CANCELLED, fence, **end)


def retry(*, fence: int, not_before: int, failure: Failure) -> Transition:
    """The attempt failed and another follows at ``not_before`` (UTC ms)."""
    return _waiting("retry", RunState.RETRYING, fence, not_before, "failed", **failure_changes(failure))


def release(*, fence: int, now: int, begun: bool = True) -> Transition:
    """The worker gives a run back because it stops. The attempt does not count, whether its job has ``begun`` or not."""
    started: dict[str, Change] = {} if begun else {"started_at": None}
    return _waiting("release", RunState.RETRYING, fence, now, "released", attempt=Plus(-1), **started)


def die(*, fence: int, **end: Unpack[EndWords]) -> Transition:
    """The run failed for good; its dead letter has been sent already."""
    return _ended("die", RunState.DEAD, fence, **end)
