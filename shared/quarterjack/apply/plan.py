"""The plan of applying declarations: one decision for each schedule, made before anything is written.

The owner of a schedule is the package or file that ``managed_by`` of its head names. ``apply`` changes only its own schedules: a
schedule with a declared name and another owner is reported as FOREIGN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from quarterjack.apply.difference import same_json
from quarterjack.domain.schedule import Declaration


class ApplyAction(StrEnum):
    CREATE = "create"  # it is declared and does not exist
    UPDATE = "update"  # it differs from its declaration
    UNCHANGED = "unchanged"  # it equals its declaration: nothing is written
    PRUNE = "prune"  # it is owned and not declared any more
    FOREIGN = "not owned"  # it is declared, and has another owner
    REFUSED = "refused"  # its declaration is invalid: its job is not registered, its queue does not exist …


@dataclass(frozen=True, kw_only=True)
class CurrentState:
    words: Mapping[str, Any]  # its fields
    managed_by: str | None  # its owner
    revision: int  # its number, to detect a concurrent change


@dataclass(frozen=True, kw_only=True)
class PlannedChange:
    name: str  # of the schedule
    act: ApplyAction
    fields: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)  # word: (current value, declared value)
    why: str = ""  # reason of FOREIGN and REFUSED
    revision: int | None = None  # that was compared; None: the schedule does not exist
    declaration: Declaration | None = None  # None for PRUNE
    job: str = ""  # name of the job
    adopts: bool = False  # whether it takes an unmanaged schedule over
    warnings: Sequence[str] = ()  # what is odd about the declaration: no worker has ever known its job …


@dataclass(frozen=True, kw_only=True)
class ApplyPlan:
    managed_by: str | None  # the owner
    changes: Sequence[PlannedChange]  # by name

    def of(self, *acts: ApplyAction) -> Iterator[PlannedChange]:
        return (change for change in self.changes if change.act in acts)

    def count(self, act: ApplyAction) -> int:
        return sum(1 for _ in self.of(act))


def plan_change(
    declared: Declaration,
    words: Mapping[str, Any],
    present: CurrentState | None,
    *,
    job: str,
    managed_by: str | None,
    adopt: bool,
) -> PlannedChange:
    common: dict[str, Any] = {"name": declared.name or job, "declaration": declared, "job": job}
    if present is None:
        new = {word: (None, value) for word, value in words.items()}
        return PlannedChange(act=ApplyAction.CREATE, fields=new, **common)
    common["revision"] = present.revision
    adopts = present.managed_by is None and managed_by is not None
    if present.managed_by != managed_by and not (adopts and adopt):
        whose = f"it is managed by {present.managed_by}" if present.managed_by else "it has no owner"
        why = "it has no owner; --adopt makes it yours" if adopts else whose
        return PlannedChange(act=ApplyAction.FOREIGN, why=why, **common)
    differs = _difference(present.words, words)
    act = ApplyAction.UPDATE if differs or adopts else ApplyAction.UNCHANGED
    return PlannedChange(act=act, fields=differs, adopts=adopts, **common)


def _difference(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The words that differ. ``paused`` is compared only if it is declared."""
    names = [*wanted, *(word for word in present if word not in wanted and word != "paused")]
    pairs = {word: (present.get(word), wanted.get(word)) for word in names}
    if pairs.get("paused") == (None, False):
        del pairs["paused"]
    return {w: pair for w, pair in pairs.items() if not (same_json(*pair) if w == "payload" else pair[0] == pair[1])}
