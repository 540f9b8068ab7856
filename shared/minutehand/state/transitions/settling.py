"""Settling: the holder of the lease ends its attempt. Each transition is conditional on RUNNING and the holder's fence."""

from __future__ import annotations

from collections.abc import Mapping

from minutehand.domain.run import Failure, RunState
from minutehand.state.transitions.transition import (
    Change,
    Plus,
    Transition,
    ended_changes,
    failure_changes,
    held,
    in_state_under,
)


def _settled(name: str, to: RunState, fence: int, changes: Mapping[str, Change]) -> Transition:
    return Transition(name=name, to=to, guard=held(fence), changes=changes, already=in_state_under(to, fence))


def _waiting(name: str, to: RunState, fence: int, not_before: int, reason: str, **more: Change) -> Transition:
    """The attempt is over, and the run waits for its next one from ``not_before`` on (UTC ms)."""
    waits: dict[str, Change] = {
        "state": to,
        "not_before": not_before,
        "lease_until": None,
        "lease_token": None,
        "reason": reason,
    }
    return _settled(name, to, fence, {**waits, **more})


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
    changes = ended_changes(RunState.SUCCEEDED, now, expires, reason)
    stored = {"result": result, "result_ref": result_ref}
    return _settled(
        "succeed", RunState.SUCCEEDED, fence, changes | {k: text for k, text in stored.items() if text is not None}
    )


def continue_(*, fence: int, now: int) -> Transition:
    """A slice ended at its checkpoint; the next slice starts at once and is no new attempt."""
    return _waiting("continue", RunState.CONTINUED, fence, now, "slice ended", attempt=Plus(-1), slices=Plus(1))


def cancelled(*, fence: int, now: int, expires: int, reason: str, failure: Failure | None) -> Transition:
    """A running job ended, or its worker stopped waiting for it, after a request to cancel it."""
    changes = ended_changes(RunState.CANCELLED, now, expires, reason) | failure_changes(failure)
    return _settled("cancelled", RunState.CANCELLED, fence, changes)


def retry(*, fence: int, not_before: int, failure: Failure) -> Transition:
    """The attempt failed and another follows at ``not_before`` (UTC ms)."""
    return _waiting("retry", RunState.RETRYING, fence, not_before, "failed", **failure_changes(failure))


def release(*, fence: int, now: int, begun: bool = True) -> Transition:
    """The worker stops before the job is done, or has not ``begun`` it, and releases the run; the attempt does not count."""
    unbegun: dict[str, Change] = {} if begun else {"started_at": None}
    return _waiting("release", RunState.RETRYING, fence, now, "released", attempt=Plus(-1), **unbegun)


def die(*, fence: int, now: int, expires: int, reason: str, failure: Failure | None) -> Transition:
    """The run failed for good; its dead letter has been sent already."""
    changes = ended_changes(RunState.DEAD, now, expires, reason) | failure_changes(failure)
    return _settled("die", RunState.DEAD, fence, changes)
