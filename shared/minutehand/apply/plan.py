"""The plan of applying declarations: one decision for each schedule, made before anything is written.

A schedule is owned by the package or file that ``managed_by`` of its head names. Nothing else is ever touched: what bears a declared
name and belongs to somebody else is reported as FOREIGN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from minutehand.domain.declaration import Declaration


class ApplyAction(StrEnum):
    """The action planned for a schedule."""

    CREATE = "create"  # it is declared and not there
    UPDATE = "update"  # it differs from what is declared
    UNCHANGED = "unchanged"  # it is as declared: nothing is written
    PRUNE = "prune"  # it is owned and no longer declared
    FOREIGN = "not owned"  # it is declared, and somebody else's
    REFUSED = "refused"  # it cannot be: its job is not registered, its queue not there …


@dataclass(frozen=True, kw_only=True)
class CurrentState:
    """The stored state of a schedule."""

    words: Mapping[str, Any]  # what it says
    managed_by: str | None  # whose it is
    revision: int  # its number, to notice who comes between


@dataclass(frozen=True, kw_only=True)
class PlannedChange:
    """The planned change of one schedule."""

    name: str  # of the schedule
    act: ApplyAction  # what is to be done
    fields: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)  # word: (as it is, as it shall be)
    why: str = ""  # of FOREIGN and REFUSED
    revision: int | None = None  # that was looked at; None: there was none
    declaration: Declaration | None = None  # None for PRUNE
    job: str = ""  # name of the job
    adopts: bool = False  # whether it takes an unmanaged schedule over


@dataclass(frozen=True, kw_only=True)
class ApplyPlan:
    """The planned changes of all schedules."""

    managed_by: str | None  # in whose name
    changes: Sequence[PlannedChange]  # by name

    def of(self, *acts: ApplyAction) -> Iterator[PlannedChange]:
        """The changes with one of these actions."""
        return (change for change in self.changes if change.act in acts)

    def count(self, act: ApplyAction) -> int:
        """Number of changes with this action."""
        return sum(1 for _ in self.of(act))


@dataclass(frozen=True, kw_only=True)
class DeclaredState:
    """The declared state of a schedule."""

    declaration: Declaration
    words: Mapping[str, Any]  # what it shall say
    job: str


def plan_change(
    name: str, wanted: DeclaredState, present: CurrentState | None, *, managed_by: str | None, adopt: bool
) -> PlannedChange:
    """Decide the action for a declared schedule."""
    common: dict[str, Any] = {"name": name, "declaration": wanted.declaration, "job": wanted.job}
    if present is None:
        new = {word: (None, value) for word, value in wanted.words.items()}
        return PlannedChange(act=ApplyAction.CREATE, fields=new, **common)
    common["revision"] = present.revision
    adopts = present.managed_by is None and managed_by is not None
    if present.managed_by != managed_by and not (adopts and adopt):
        return PlannedChange(act=ApplyAction.FOREIGN, why=_whose(present.managed_by, adopts=adopts), **common)
    differs = _difference(present.words, wanted.words)
    act = ApplyAction.UPDATE if differs or adopts else ApplyAction.UNCHANGED
    return PlannedChange(act=act, fields=differs, adopts=adopts, **common)


def _difference(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The words that differ. Whether it is paused is its owner's business unless it is declared."""
    names = [*wanted, *(word for word in present if word not in wanted and word != "paused")]
    pairs = {word: (present.get(word), wanted.get(word)) for word in names}
    if pairs.get("paused") == (None, False):
        del pairs["paused"]
    return {w: pair for w, pair in pairs.items() if not (_same(*pair) if w == "payload" else pair[0] == pair[1])}


def _same(one: Any, other: Any) -> bool:
    """Whether two payloads are the same JSON: 1 is neither true nor 1.0 there."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)


def _whose(owner: str | None, *, adopts: bool) -> str:
    if adopts:
        return "nobody manages it; --adopt takes it over"
    return f"it is managed by {owner}" if owner else "nobody manages it"
