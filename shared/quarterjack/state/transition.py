"""A transition: one conditional write on a run's row, with its conditions and changes as data.

Each driver renders or evaluates the conditions.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import field
from typing import Any, NotRequired, TypedDict, Unpack

from quarterjack.domain.run import EPOCH, Failure, RunState
from quarterjack.domain.times import SECOND
from quarterjack.values import replace, value

Value = int | str | bool | bytes
Row = Mapping[str, Value]  # the attributes of a run's row by name; what is not set is not there

OPERATORS = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">=": operator.ge}


@value()
class Compare:
    """``attribute operator value``; false where the attribute is not set."""

    attribute: str
    operator: str
    value: Value


@value()
class OneOf:
    attribute: str
    values: tuple[Value, ...]


@value()
class Absent:
    attribute: str


@value()
class AllOf:
    parts: tuple[Condition, ...]


@value()
class AnyOf:
    parts: tuple[Condition, ...]


Condition = Compare | OneOf | Absent | AllOf | AnyOf


def all_of(*parts: Condition) -> Condition:
    return AllOf(parts)


def any_of(*parts: Condition) -> Condition:
    return AnyOf(parts)


def holds(clause: Condition, row: Row) -> bool:
    """Whether a row meets a clause, by DynamoDB's rules: a comparison with an attribute that is not set is false."""
    match clause:
        case Compare(attribute, symbol, value):
            return attribute in row and _compares(symbol, row[attribute], value)
        case OneOf(attribute, values):
            return attribute in row and row[attribute] in values
        case Absent(attribute):
            return attribute not in row
        case AllOf(parts):
            return all(holds(part, row) for part in parts)
        case AnyOf(parts):
            return any(holds(part, row) for part in parts)


def _compares(symbol: str, present: Any, value: Value) -> bool:
    """Values of different types are neither greater nor smaller."""
    try:
        return bool(OPERATORS[symbol](present, value))
    except TypeError:
        return False


STARTABLE = ("QUEUED", "RETRYING", "CONTINUED", "PARKED")  # a lease starts from these states, or from an abandoned run
OPEN = OneOf("state", (*STARTABLE, "RUNNING"))  # the run has not ended
# Characters of an error kept in the run's own row, which must stay under 1 KB; the attempt's row has more.
ERROR_TEXT = 240


@value()
class Plus:
    amount: int


@value()
class Once:
    """A change that sets an attribute only if it is not set yet."""

    value: Value


Change = Value | Plus | Once | None  # None removes the attribute


@value(kw_only=True)
class Transition:
    """One guarded write on a run's row."""

    name: str  # for logs and errors
    to: RunState | None  # the new state; None leaves it (renew)
    guard: Condition  # the row must meet this
    changes: Mapping[str, Change] = field(default_factory=dict)  # attributes to write
    already: Condition  # the row meets this if the same write took effect and its response was lost


NOT_CANCELLED = Absent("cancel_requested")
READY = OneOf("state", STARTABLE)
NEVER_LEASED = Compare("state", "=", RunState.QUEUED)
RUNNING = Compare("state", "=", RunState.RUNNING)
REFUSED_UNSTARTED = Compare("unstarted", "=", True)  # a change of the schedule refused it: another claim may revive it


def same_revision(revision: int) -> Condition:
    return Compare("rev", "=", revision)


def of_backfill(backfill: str | None) -> Condition:
    """The run belongs to this backfill, or to none."""
    return Absent("backfill") if backfill is None else Compare("backfill", "=", backfill)


def up_to_revision(revision: int) -> Condition:
    return Compare("rev", "<=", revision)


def due(now: int) -> Condition:
    return Compare("not_before", "<=", now)


def in_state(state: RunState) -> Condition:
    return Compare("state", "=", state)


def same_fence(fence: int) -> Condition:
    return Compare("fence", "=", fence)


def of_epoch(seen_fence: int) -> Condition:
    """No restore of the tables has raised the fence by an epoch or more since a message was sent with ``seen_fence``."""
    return Compare("fence", "<", seen_fence + EPOCH)


def in_state_under(state: RunState, fence: int) -> Condition:
    return all_of(in_state(state), same_fence(fence))


def held(fence: int) -> Condition:
    return all_of(RUNNING, same_fence(fence))


def failure_changes(failure: Failure | None) -> dict[str, Change]:
    if failure is None:
        return {}
    changes: dict[str, Change] = {"error_type": failure.kind[:ERROR_TEXT], "error": failure.message[:ERROR_TEXT]}
    return changes | ({"error_code": failure.code[:ERROR_TEXT]} if failure.code else {})


def signed(transition: Transition, actor: str | None) -> Transition:
    """The same transition, which also writes who makes it; None leaves that as it is."""
    return transition if actor is None else replace(transition, changes={**transition.changes, "actor": actor})


class EndWords(TypedDict):
    """Keywords of the transitions to a terminal state."""

    now: int  # UTC ms
    expires: int  # UTC ms at which the row expires
    reason: str | None
    failure: NotRequired[Failure | None]  # of the last attempt


def ending(
    name: str,
    to: RunState,
    guard: Condition,
    *,
    more: Mapping[str, Change] | None = None,
    already: Condition | None = None,
    **end: Unpack[EndWords],
) -> Transition:
    """A transition to a terminal state. ``already``: by default that state with that ``reason``.

    No other transition sets the row's expiry, so the row of a waiting run never expires.
    """
    changes: dict[str, Change] = {
        "state": to,
        "ended_at": end["now"],
        "ttl": end["expires"] // SECOND,
        "reason": end["reason"],
        "lease_until": None,
        "lease_token": None,
    }
    return Transition(
        name=name,
        to=to,
        guard=guard,
        changes={**changes, **failure_changes(end.get("failure")), **(more or {})},
        already=already or all_of(in_state(to), Compare("reason", "=", end["reason"] or "")),
    )
