"""A run is ended or changed by others than its holder: the owner, the overlap policy, a worker that finds it, the undertaker."""

from __future__ import annotations

from typing import Unpack

from quarterjack.domain.run import RunState
from quarterjack.state.lease import abandoned
from quarterjack.state.transition import (
    OPEN,
    READY,
    Absent,
    Change,
    Compare,
    EndWords,
    Once,
    OneOf,
    Transition,
    all_of,
    any_of,
    ending,
    in_state,
    in_state_under,
    of_backfill,
    of_epoch,
    same_fence,
    same_revision,
)

_ASKED = Compare("cancel_requested", "=", True)
_BETWEEN_ATTEMPTS = OneOf("state", ("RETRYING", "CONTINUED"))


def cancel(*, now: int, expires: int) -> Transition:
    """A run that waits is CANCELLED: no attempt of it starts any more."""
    return ending(
        "cancel",
        RunState.CANCELLED,
        READY,
        now=now,
        expires=expires,
        reason="requested",
        more={"cancel_requested": True},
        already=all_of(in_state(RunState.CANCELLED), _ASKED),
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


def terminate(*, revision: int, **end: Unpack[EndWords]) -> Transition:
    """The overlap policy makes a run CANCELLED that has not ended; its worker's writes are refused from then on."""
    return ending("terminate", RunState.CANCELLED, all_of(same_revision(revision), OPEN), **end)


def hasten(*, now: int) -> Transition:
    """A run that waits for its next attempt may start it now."""
    return Transition(
        name="hasten",
        to=None,
        guard=_BETWEEN_ATTEMPTS,
        changes={"not_before": now},
        already=all_of(_BETWEEN_ATTEMPTS, Compare("not_before", "=", now)),
    )


def expire(*, revision: int, backfill: str | None = None, seen_fence: int = 0, **end: Unpack[EndWords]) -> Transition:
    """The run's deadline passed before an attempt could start: the first, or one after its worker crashed.

    ``seen_fence``: of the run when its message was sent.
    """
    mine = all_of(same_revision(revision), of_backfill(backfill), of_epoch(seen_fence))
    guard = all_of(mine, any_of(READY, abandoned(end["now"])))
    return ending("expire", RunState.EXPIRED, guard, **end)


def exhaust(*, max_attempts: int, fence: int, **end: Unpack[EndWords]) -> Transition:
    """A run has no attempt left and none runs, as when its job has killed its process each time: DEAD."""
    spent = Compare("attempt", ">=", max_attempts)
    guard = all_of(any_of(abandoned(end["now"]), READY), spent, same_fence(fence))
    return ending("exhaust", RunState.DEAD, guard, already=in_state_under(RunState.DEAD, fence), **end)


def lose(*, now: int, expires: int, token: str) -> Transition:
    """The worker of an at-most-once run crashed: LOST, and never run again."""
    guard = all_of(abandoned(now), Compare("lease_token", "=", token))
    return ending("lose", RunState.LOST, guard, now=now, expires=expires, reason="worker vanished")


def cancel_waiting(**end: Unpack[EndWords]) -> Transition:
    """The cancellation of a run was requested before an attempt could start; an abandoned run gets no further attempt."""
    guard = all_of(any_of(READY, abandoned(end["now"])), _ASKED)
    return ending("cancel_waiting", RunState.CANCELLED, guard, already=in_state(RunState.CANCELLED), **end)


def bury(*, fence: int, revision: int | None = None, **end: Unpack[EndWords]) -> Transition:
    """The undertaker records a dead run, once: its worker may have settled it already, or died before it could.

    ``revision``: of the message that failed, if it is known. A run that was claimed anew or rescheduled since is alive.
    """
    mine, now = same_fence(fence), end["now"]
    if revision is not None:
        mine = all_of(mine, same_revision(revision))
    guard = all_of(mine, any_of(in_state(RunState.DEAD), OPEN), Absent("buried_at"))
    more: dict[str, Change] = {"ended_at": Once(now), "buried_at": now}  # a run that was DEAD before keeps its end
    return ending("bury", RunState.DEAD, guard, more=more, already=all_of(mine, Compare("buried_at", "=", now)), **end)


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
