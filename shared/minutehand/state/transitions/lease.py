"""A worker takes the lease of a run, and renews it."""

from __future__ import annotations

from collections.abc import Mapping

from minutehand.domain.run import RunState
from minutehand.state.conditions import Compare, all_of, any_of
from minutehand.state.transitions.lease_time import abandoned, lease_end
from minutehand.state.transitions.transition import (
    Change,
    Once,
    Plus,
    Transition,
    due,
    held,
    in_state,
    never_leased,
    not_cancelled,
    ready,
    same_fence,
    same_revision,
)

_COUNTED: Mapping[str, Change] = {"fence": Plus(1), "attempt": Plus(1), "slices": Once(0)}
_FIRST: Mapping[str, Change] = {"fence": 1, "attempt": 1, "slices": 0}
_UNTOUCHED = same_fence(0)


def lease(
    *, revision: int, now: int, token: str, worker: str, max_attempts: int, steal: bool, first: bool = False
) -> Transition:
    """A worker leases the run. ``steal``: an abandoned run may be leased too (never with at-most-once).

    ``first``: only a run that was never leased. Then the guard has no alternatives and no change depends on the row, so many runs
    can be leased in one batch.
    """
    startable = never_leased() if first else any_of(ready(), abandoned(now)) if steal else ready()
    untouched = _UNTOUCHED if first else Compare("attempt", "<", max_attempts)
    counted = _FIRST if first else _COUNTED
    return Transition(
        name="lease",
        to=RunState.RUNNING,
        guard=all_of(same_revision(revision), due(now), not_cancelled(), untouched, startable),
        changes={
            "state": RunState.RUNNING,
            "max_attempts": max_attempts,
            "lease_until": lease_end(now),
            "lease_token": token,
            "leased_at": now,
            "worker": worker,
            "reason": None,
            "started_at": now if first else Once(now),
            **counted,
        },
        already=all_of(in_state(RunState.RUNNING), Compare("lease_token", "=", token)),
    )


def renew(*, fence: int, now: int, progress: float | None = None, stage: str | None = None) -> Transition:
    """A heartbeat: the holder extends the lease, and stores its progress (0 to 1; thousandths in the row)."""
    changes: dict[str, Change] = {"lease_until": lease_end(now)}
    if progress is not None:
        changes["progress"] = round(progress * 1_000)
    if stage is not None:
        changes["stage"] = stage
    return Transition(name="renew", to=None, guard=held(fence), changes=changes, already=held(fence))
