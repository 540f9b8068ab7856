"""A transition: one conditional write on a run's row, with the guard clauses and the changes that several transitions share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache

from minutehand.domain.quick import quick
from minutehand.domain.run import Failure, RunState
from minutehand.domain.times import SECOND
from minutehand.state.conditions import Absent, Compare, Condition, OneOf, Value, all_of

UNBEGUN = ("QUEUED", "RETRYING", "CONTINUED")  # a lease starts from these states, or from an abandoned run
OPEN = OneOf("state", (*UNBEGUN, "RUNNING"))  # the run has not ended
# Characters of an error kept in the run's own row, which must stay under 1 KB; the attempt's row has more.
ERROR_TEXT = 240


@dataclass(frozen=True)
class Plus:
    """A change that adds to a number."""

    amount: int


@dataclass(frozen=True)
class Once:
    """A change that sets an attribute only if it is not set yet."""

    value: Value


Change = Value | Plus | Once | None  # None removes the attribute


@quick
@dataclass(frozen=True, kw_only=True)
class Transition:
    """One guarded write on a run's row."""

    name: str  # for logs and errors
    to: RunState | None  # the new state; None leaves it (renew)
    guard: Condition  # the row must meet this
    changes: Mapping[str, Change] = field(default_factory=dict)  # attributes to write
    already: Condition  # the row meets this if the same write took effect and its response was lost


@lru_cache(maxsize=256)
def same_revision(revision: int) -> Condition:
    return Compare("rev", "=", revision)


def up_to_revision(revision: int) -> Condition:
    return Compare("rev", "<=", revision)


def due(now: int) -> Condition:
    return Compare("not_before", "<=", now)


@cache
def not_cancelled() -> Condition:
    return Absent("cancel_requested")


def ready() -> Condition:
    return OneOf("state", UNBEGUN)


@lru_cache(maxsize=32)
def in_state(state: RunState) -> Condition:
    return Compare("state", "=", state)


def never_leased() -> Condition:
    return in_state(RunState.QUEUED)


def refused_unstarted() -> Condition:
    """A change of the schedule refused the run before it started, so another claim may revive it."""
    return Compare("unstarted", "=", True)


def same_fence(fence: int) -> Condition:
    return Compare("fence", "=", fence)


@lru_cache(maxsize=256)
def in_state_under(state: RunState, fence: int) -> Condition:
    return all_of(Compare("state", "=", state), same_fence(fence))


def held(fence: int) -> Condition:
    return in_state_under(RunState.RUNNING, fence)


def ended_changes(state: RunState, now: int, expires: int, reason: str | None) -> dict[str, Change]:
    """The changes of every terminal transition; no other sets the row's expiry, so the row of a waiting run never expires."""
    return {
        "state": state,
        "ended_at": now,
        "ttl": expires // SECOND,
        "reason": reason,
        "lease_until": None,
        "lease_token": None,
    }


def failure_changes(failure: Failure | None) -> dict[str, Change]:
    if failure is None:
        return {}
    changes: dict[str, Change] = {"error_type": failure.kind[:ERROR_TEXT], "error": failure.message[:ERROR_TEXT]}
    return changes | ({"error_code": failure.code[:ERROR_TEXT]} if failure.code else {})


def ending(
    name: str,
    to: RunState,
    guard: Condition,
    *,
    now: int,
    expires: int,
    reason: str,
    failure: Failure | None = None,
    more: Mapping[str, Change] | None = None,
    already: Condition | None = None,
) -> Transition:
    """A transition to a terminal state. ``already``: by default that state with that ``reason``."""
    return Transition(
        name=name,
        to=to,
        guard=guard,
        changes={**ended_changes(to, now, expires, reason), **failure_changes(failure), **(more or {})},
        already=already or all_of(in_state(to), Compare("reason", "=", reason)),
    )
