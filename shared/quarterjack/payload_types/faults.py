"""Where a payload does not fit a JSON Schema, and why: the first fault, found by asking for one part of the schema after the other.

The engine's own errors list every way in which every alternative fails, and of alternatives within alternatives these are millions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from quarterjack.payload_types.bounds import LEAVES, Parts, parts_of, pointer, target_of
from quarterjack.values import value

Path = tuple[str | int, ...]
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")


@value()
class Fault:
    """One place of a payload that does not fit."""

    path: Path  # of the value
    value: Any
    keyword: str  # that refuses it; "false": the schema that takes nothing; "schema": more cannot be told
    given: Any = None  # what the keyword says
    is_missing: bool = False  # there is no value


class Checker(Protocol):
    """A schema as the engine has compiled it."""

    def is_valid(self, instance: Any) -> bool: ...

    def validate(self, instance: Any) -> None: ...


class FaultFinder:
    """Finds faults by one schema. Its work grows with schema and payload, not with the number of ways in which they do not fit."""

    def __init__(
        self, schema: Mapping[str, Any], checkers: Callable[[str], Checker], compiled: Callable[[Any], Checker]
    ) -> None:
        """``checkers`` gives that of a part of the schema, by pointer; ``compiled`` makes one of a small schema."""
        self._parts: Parts = parts_of(schema)
        self._checkers, self._compile = checkers, compiled
        self._own_checkers = dict[
            tuple[str, str], Checker
        ]()  # of what a part says itself, by place and what it is about

    def first(self, value: Any) -> Fault:
        """The first fault of a payload that does not fit."""
        return self._at("#", value, ()) or Fault((), value, "schema")

    def _fits(self, place: str, value: Any) -> bool:
        return self._checkers(place).is_valid(value)

    def _compiled(self, place: str, about: str, own: Mapping[str, Any]) -> Checker:
        """A small schema, compiled once."""
        key = place, about
        if key not in self._own_checkers:
            self._own_checkers[key] = self._compile(dict(own))
        return self._own_checkers[key]

    def _at(self, place: str, value: Any, path: Path) -> Fault | None:
        """The first fault by the part at ``place``; None if the value fits it."""
        if self._fits(place, value):
            return None
        part = self._parts[place]
        if part is False:
            return Fault(path, value, "false")
        for find in (self._own, self._within, self._alternatives):
            for fault in find(place, part, value, path):
                if fault is not None:
                    return fault
        for keyword in _UNEVALUATED:
            if keyword in part:
                return Fault(path, value, keyword)
        return Fault(path, value, "schema")

    # What the part says itself.

    def _own(self, place: str, part: Mapping[str, Any], value: Any, path: Path) -> Iterator[Fault | None]:
        own = {keyword: part[keyword] for keyword in part if keyword in LEAVES}
        if "type" in own:
            yield self._leaf(place, "type", {"type": own["type"]}, value, path)
        yield self._leaf(place, "own", own, value, path)
        if "$ref" in part:
            yield self._at(target_of(part["$ref"]), value, path)
        for number in range(len(part.get("allOf", ()))):
            yield self._at(f"{place}/allOf/{number}", value, path)

    def _leaf(self, place: str, about: str, own: Mapping[str, Any], value: Any, path: Path) -> Fault | None:
        """The fault by keywords that contain no further part."""
        checker = self._compiled(place, about, own)
        if checker.is_valid(value):
            return None
        try:
            checker.validate(value)
        except ValueError as problem:  # the engine's ValidationError
            kind: Any = getattr(problem, "kind", None)
            keyword = str(getattr(kind, "name", "schema"))
            if keyword == "required":
                return Fault((*path, kind.property), None, keyword, is_missing=True)
            return Fault(path, value, keyword, own.get(keyword))
        return None

    # What it says of the values within.

    def _within(self, place: str, part: Mapping[str, Any], value: Any, path: Path) -> Iterator[Fault | None]:
        if isinstance(value, dict):
            yield from self._of_fields(place, part, value, path)
        elif isinstance(value, list):
            yield from self._of_items(place, part, value, path)

    def _of_fields(
        self, place: str, part: Mapping[str, Any], value: dict[str, Any], path: Path
    ) -> Iterator[Fault | None]:
        for name in part.get("properties", ()):
            if name in value:
                yield self._at(f"{place}/properties/{pointer(name)}", value[name], (*path, name))
        for pattern in part.get("patternProperties", ()):
            named = self._compiled(place, f"named {pattern}", {"pattern": pattern})
            for name in filter(named.is_valid, value):
                yield self._at(f"{place}/patternProperties/{pointer(pattern)}", value[name], (*path, name))
        if "additionalProperties" in part:
            for name in self._unnamed(place, part, value):
                fault = self._at(f"{place}/additionalProperties", value[name], (*path, name))
                yield Fault((*path, name), value[name], "additionalProperties") if _is_refusal(part, fault) else fault
        if "propertyNames" in part:
            yield from (
                None if self._fits(f"{place}/propertyNames", name) else Fault((*path, name), each, "propertyNames")
                for name, each in value.items()
            )
        yield from self._of_present(place, part, value, path)

    def _of_present(
        self, place: str, part: Mapping[str, Any], value: dict[str, Any], path: Path
    ) -> Iterator[Fault | None]:
        for name in part.get("dependentSchemas", ()):
            if name in value:
                yield self._at(f"{place}/dependentSchemas/{pointer(name)}", value, path)

    def _unnamed(self, place: str, part: Mapping[str, Any], value: dict[str, Any]) -> Iterator[str]:
        """The fields that neither ``properties`` nor ``patternProperties`` name."""
        patterns = part.get("patternProperties", ())
        named = [self._compiled(place, f"named {pattern}", {"pattern": pattern}) for pattern in patterns]
        for name in value:
            if name not in part.get("properties", ()) and not any(one.is_valid(name) for one in named):
                yield name

    def _of_items(self, place: str, part: Mapping[str, Any], value: list[Any], path: Path) -> Iterator[Fault | None]:
        first = len(part.get("prefixItems", ()))
        for number, item in enumerate(value):
            if number < first:
                yield self._at(f"{place}/prefixItems/{number}", item, (*path, number))
            elif "items" in part:
                yield self._at(f"{place}/items", item, (*path, number))
        if "contains" in part:
            found = sum(self._fits(f"{place}/contains", item) for item in value)
            if not part.get("minContains", 1) <= found <= part.get("maxContains", found):
                yield Fault(path, value, "contains")

    # What it says in alternatives.

    def _alternatives(self, place: str, part: Mapping[str, Any], value: Any, path: Path) -> Iterator[Fault | None]:
        for keyword in ("anyOf", "oneOf"):
            branches = [f"{place}/{keyword}/{number}" for number in range(len(part.get(keyword, ())))]
            if not branches:
                continue
            fitting = [branch for branch in branches if self._fits(branch, value)]
            if not fitting:
                yield self._nearest(branches, keyword, value, path)
            elif keyword == "oneOf" and len(fitting) > 1:
                yield Fault(path, value, "several", len(fitting))
        if "not" in part and self._fits(f"{place}/not", value):
            yield Fault(path, value, "not")
        if "if" in part:
            branch = "then" if self._fits(f"{place}/if", value) else "else"
            if branch in part:
                yield self._at(f"{place}/{branch}", value, path)

    def _nearest(self, branches: list[str], keyword: str, value: Any, path: Path) -> Fault | None:
        """The fault by the alternative that was probably meant: the one of the value's type with the most fields that tell them apart."""
        of_type = [branch for branch in branches if self._has_type(branch, value)]
        if not of_type:
            return Fault(path, value, keyword, [kind for branch in branches for kind in self._types(branch)])
        return self._at(max(of_type, key=lambda branch: self._likeness(branch, value)), value, path)

    def _resolved(self, place: str) -> Mapping[str, Any]:
        part = self._parts[place]
        while isinstance(part, dict) and "$ref" in part:
            part = self._parts[target_of(part["$ref"])]
        return part if isinstance(part, dict) else {}

    def _types(self, place: str) -> list[str]:
        """The names of the types that a part takes; empty: any, or it is not said."""
        part = self._resolved(place)
        said = part.get("type", [])
        return [said] if isinstance(said, str) else list(said)

    def _has_type(self, place: str, value: Any) -> bool:
        said = self._types(place)
        return not said or self._compiled(place, "types", {"type": said}).is_valid(value)

    def _likeness(self, place: str, value: Any) -> tuple[int, int, int]:
        part = self._resolved(place)
        if not isinstance(value, dict):
            return 0, 0, 0
        told = {name: each for name, each in part.get("properties", {}).items() if isinstance(each, dict)}
        tags = {name: each for name, each in told.items() if "const" in each or "enum" in each}
        right = sum(
            name in value and self._compiled(place, f"tag {name}", _tag(tags[name])).is_valid(value[name])
            for name in tags
        )
        present = sum(name in value for name in part.get("required", ()))
        return right - len(tags), present - len(part.get("required", ())), -sum(name not in told for name in value)


def _tag(part: Mapping[str, Any]) -> dict[str, Any]:
    return {keyword: part[keyword] for keyword in ("const", "enum") if keyword in part}


def _is_refusal(part: Mapping[str, Any], fault: Fault | None) -> bool:
    return fault is not None and part["additionalProperties"] is False
