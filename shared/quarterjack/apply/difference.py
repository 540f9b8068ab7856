"""How two payloads differ, key by key, without what must not be shown: values under sensitive names, and texts that match a pattern."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from quarterjack.domain.redaction import MASK, Redact

_PLAIN = re.compile(r"[A-Za-z_][\w-]*")  # a key that needs no quotes in a path


class DifferenceKind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, kw_only=True)
class PayloadChange:
    """One difference of two payloads. Sensitive values are masked."""

    path: str  # such as ``payload.regions[2].name``
    kind: DifferenceKind
    before: Any = None  # the JSON value in the old payload; None if the kind is ADDED
    after: Any = None  # the JSON value in the new payload; None if the kind is REMOVED


def payload_changes(before: Any, after: Any, redact: Redact) -> list[PayloadChange]:
    """The differences in the order of the new payload, what was removed behind it. Beside an object, no payload is an empty one."""
    first = {} if before is None and isinstance(after, dict) else before
    second = {} if after is None and isinstance(before, dict) else after
    found = [*_changes(first, second, redact, "payload")]
    if found or same_json(before, after):
        return found
    return [PayloadChange(path="payload", kind=DifferenceKind.CHANGED, before=before, after=after)]  # null and {}


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
