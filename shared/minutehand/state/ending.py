"""A run is ended or changed by others than its holder: the owner, the overlap policy, a worker that finds it, the undertaker."""

from __future__ import annotations

from minutehand.domain.run import Failure, RunState
from minutehand.state.lease import abandoned
from minutehand.state.transition import (
    OPEN,
    READY,
    Absent,
    Change,
    Compare,
    Once,
    OneOf,
    Transition,
    all_of,
    any_of,
    ending,
    in_state,
    in_state_under,
    same_fence,
    same_revision,
)

_ASKED = Compare("cancel_requested", "=", True)
_BETWEEN_ATTEMPTS = OneOf("state", ("RETRYING", "CONTINUED"))


def cancel(*, now: int, expires: int) -> Transition:
    """A run that waits is CANCELLED: no attempt of it starts any more."""
    more: dict[str, Change] = {"cancel_requested": True}
    already = all_of(in_state(RunState.CANCELLED), _ASKED)
    return ending(
        "cancel", RunState.CANCELLED, READY, now=now, expires=expires, reason="requested", more=more, already=already
    )


def request_cancel() -> Transition:
    """The worker of a RUNNING run sees the request at its next heartbeat, and no further attempt starts."""
    running = in_state(RunState.RUNNING)
    return Transition(
        name="request_cancel",
        to=None,
        guard=running,
        changes={"cancel_requested": True},
        already=all_of(running, _ASKED),
    )


def terminate(*, revision: int, now: int, expires: int, reason: str) -> Transition:
    """The overlap policy makes a run CANCELLED that has not ended; its worker's writes are refused from then on."""
    guard = all_of(same_revision(revision), OPEN)
    return ending("terminate", RunState.CANCELLED, guard, now=now, expires=expires, reason=reason)


def hasten(*, now: int) -> Transition:
    """A run that waits for its next attempt may start it now."""
    return Transition(
        name="hasten",
        to=None,
        guard=_BETWEEN_ATTEMPTS,
        changes={"not_before": now},
        already=all_of(_BETWEEN_ATTEMPTS, Compare("not_before", "=", now)),
    )


def expire(*, revision: int, now: int, expires: int) -> Transition:
    """The run's deadline passed before an attempt could start: the first, or one after its worker crashed."""
    guard = all_of(same_revision(revision), any_of(READY, abandoned(now)))
    return ending("expire", RunState.EXPIRED, guard, now=now, expires=expires, reason="deadline passed")


def exhaust(
    *, now: int, expires: int, max_attempts: int, fence: int, reason: str, failure: Failure | None
) -> Transition:
    """An abandoned run has no attempt left, as when its job kills its process: DEAD."""
    spent = Compare("attempt", ">=", max_attempts)
    return ending(
        "exhaust",
        RunState.DEAD,
        all_of(any_of(abandoned(now), READY), spent, same_fence(fence)),
        now=now,
        expires=expires,
        reason=reason,
        failure=failure,
        already=in_state_under(RunState.DEAD, fence),
    )


def lose(*, now: int, expires: int, token: str) -> Transition:
    """The worker of an at-most-once run crashed: LOST, and never run again."""
    guard = all_of(abandoned(now), Compare("lease_token", "=", token))
    return ending("lose", RunState.LOST, guard, now=now, expires=expires, reason="worker vanished")


def cancel_waiting(*, now: int, expires: int, reason: str) -> Transition:
    """The cancellation of a run was requested before an attempt could start; an abandoned run gets no further attempt."""
    guard, already = all_of(any_of(READY, abandoned(now)), _ASKED), in_state(RunState.CANCELLED)
    return ending("cancel_waiting", RunState.CANCELLED, guard, now=now, expires=expires, reason=reason, already=already)


def bury(*, fence: int, now: int, expires: int, reason: str, failure: Failure | None) -> Transition:
    """The undertaker records a dead run, once: its worker may have settled it already, or died before it could."""
    mine = same_fence(fence)
    return ending(
        "bury",
        RunState.DEAD,
        all_of(mine, any_of(in_state(RunState.DEAD), OPEN), Absent("buried_at")),
        now=now,
        expires=expires,
        reason=reason,
        failure=failure,
        more={"ended_at": Once(now), "buried_at": now},  # a run that was DEAD before keeps its end
        already=all_of(mine, Compare("buried_at", "=", now)),
    )


def inter(*, state: RunState, fence: int, now: int) -> Transition:
    """The undertaker records, once, a run that a worker or the ticker found LOST or EXPIRED."""
    mine = in_state_under(state, fence)
    return Transition(
        name="inter",
        to=None,
        guard=all_of(mine, Absent("buried_at")),
        changes={"buried_at": now},
        already=all_of(mine, Compare("buried_at", "=", now)),
    )
