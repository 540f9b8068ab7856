"""The plan of applying declarations: one decision for each schedule, made before anything is written.

The owner of a schedule is the package or file that ``managed_by`` of its head names. ``apply`` changes only its own schedules: a
schedule with a declared name and another owner is reported as FOREIGN.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any

from quarterjack.domain.redaction import MASK, Redact
from quarterjack.domain.schedule import Declaration, Definition
from quarterjack.values import value

_PLAIN = re.compile(r"[A-Za-z_][\w-]*")  # a key that needs no quotes in a path


class ApplyAction(StrEnum):
    CREATE = "create"  # it is declared and does not exist
    UPDATE = "update"  # it differs from its declaration
    UNCHANGED = "unchanged"  # it equals its declaration: nothing is written
    PRUNE = "prune"  # it is owned and not declared any more
    FOREIGN = "not owned"  # it is declared, and has another owner
    REFUSED = "refused"  # its declaration is invalid: its job is not registered, its queue does not exist …


@value(kw_only=True)
class CurrentState:
    words: Mapping[str, Any]  # its fields
    managed_by: str | None  # its owner
    revision: int  # its number, to detect a concurrent change


@value(kw_only=True)
class PlannedChange:
    name: str  # of the schedule
    act: ApplyAction
    fields: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)  # word: (current value, declared value)
    why: str = ""  # reason of FOREIGN and REFUSED
    revision: int | None = None  # that was compared; None: the schedule does not exist
    declaration: Declaration | None = None  # None for PRUNE
    definition: Definition | None = None  # that its declaration makes; None for PRUNE and REFUSED
    job: str = ""  # name of the job
    adopts: bool = False  # whether it takes an unmanaged schedule over
    warnings: Sequence[str] = ()  # what is odd about the declaration: no worker has ever known its job …


@value(kw_only=True)
class ApplyPlan:
    managed_by: str | None  # the owner
    changes: Sequence[PlannedChange]  # by name
    warnings: Sequence[str] = ()  # instants at which so many schedules fire afterwards that their runs start late

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


class DifferenceKind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@value(kw_only=True)
class PayloadChange:
    """One difference of two payloads, or of the tasks of a pipeline. Sensitive values are masked."""

    path: str  # such as ``payload.regions[2].name``, ``tasks.report.after[1]``
    kind: DifferenceKind
    before: Any = None  # the JSON value in the old payload; None if the kind is ADDED
    after: Any = None  # the JSON value in the new payload; None if the kind is REMOVED


def payload_changes(before: Any, after: Any, redact: Redact, root: str = "payload") -> list[PayloadChange]:
    """The differences in the order of the new payload, what was removed behind it. Beside an object, no payload is an empty one.

    ``root`` begins the paths: "tasks" of those of a pipeline, which are compared likewise.
    """
    first = {} if before is None and isinstance(after, dict) else before
    second = {} if after is None and isinstance(before, dict) else after
    found = [*_changes(first, second, redact, root)]
    if found or same_json(before, after):
        return found
    return [PayloadChange(path=root, kind=DifferenceKind.CHANGED, before=before, after=after)]  # null and {}


def masked(value: Any, redact: Redact) -> Any:
    """JSON with a mask in place of the values under sensitive names and of what a pattern matches."""
    match value:
        case dict():
            return {name: MASK if redact.hides(name) else masked(inner, redact) for name, inner in value.items()}
        case list():
            return [masked(inner, redact) for inner in value]
        case str():
            return redact.text(value)
    return value


def same_json(one: Any, other: Any) -> bool:
    """Whether two payloads are the same JSON: 1 differs from true and from 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return type(one) is type(other) and bool(one == other)


def _changes(before: Any, after: Any, redact: Redact, path: str) -> Iterator[PayloadChange]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _of_objects(before, after, redact, path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _of_lists(before, after, redact, path)
    elif not same_json(before, after):
        yield PayloadChange(
            path=path, kind=DifferenceKind.CHANGED, before=masked(before, redact), after=masked(after, redact)
        )


def _of_objects(
    before: Mapping[str, Any], after: Mapping[str, Any], redact: Redact, path: str
) -> Iterator[PayloadChange]:
    for name in dict.fromkeys((*after, *before)):
        place = f"{path}.{name}" if _PLAIN.fullmatch(name) else f"{path}[{json.dumps(name, ensure_ascii=False)}]"
        if name not in before:
            yield _one(place, DifferenceKind.ADDED, None, {name: after[name]}, redact)
        elif name not in after:
            yield _one(place, DifferenceKind.REMOVED, {name: before[name]}, None, redact)
        elif not redact.hides(name):
            yield from _changes(before[name], after[name], redact, place)
        elif not same_json(before[name], after[name]):
            yield PayloadChange(path=place, kind=DifferenceKind.CHANGED, before=MASK, after=MASK)


def _one(
    place: str, kind: DifferenceKind, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, redact: Redact
) -> PayloadChange:
    """A member that one of the two has."""
    shown = (None if one is None else next(iter(masked(dict(one), redact).values())) for one in (before, after))
    return PayloadChange(path=place, kind=kind, before=next(shown), after=next(shown))


def _of_lists(before: Sequence[Any], after: Sequence[Any], redact: Redact, path: str) -> Iterator[PayloadChange]:
    """Of what lies between the equal ends of two lists; ``[n]`` counts in the new list, of what was removed in the old one."""
    head = _alike(before, after)
    tail = _alike(before[head:][::-1], after[head:][::-1])
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    for at in range(max(len(old), len(new))):
        place = f"{path}[{head + at}]"
        if at >= len(old):
            yield PayloadChange(path=place, kind=DifferenceKind.ADDED, after=masked(new[at], redact))
        elif at >= len(new):
            yield PayloadChange(path=place, kind=DifferenceKind.REMOVED, before=masked(old[at], redact))
        else:
            yield from _changes(old[at], new[at], redact, place)


def _alike(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many items both begin with."""
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if not same_json(*pair)), min(len(one), len(other))
    )
