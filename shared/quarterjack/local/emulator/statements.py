"""MiniStack's PartiQL statements, parsed once a shape.

The statements of a package differ in their numbers, which stand in the text, and in their parameters, and have few shapes. MiniStack
(1.5) parses each statement anew, and one of a batch twice: a third of the emulator's processor time in a burst.
``remember_statements`` replaces ``parse_partiql_statement`` of ``ministack.services.dynamodb``. The meaning stays MiniStack's: the first
statement of a shape is parsed by MiniStack both as it stands and with placeholders for its values, and the shape is remembered only if
the second, with the values put in, equals the first. A release without that name is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

Parse = Callable[[str, Sequence[Any] | None], dict[str, Any]]

_PARTS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\?|(?<![\w.?])(?:0|[1-9]\d{0,17})(?![\w.])""")
_MOST = 1_000  # shapes remembered: this package has a few dozen


def remember_statements(dynamodb: Any) -> None:
    """Let MiniStack's module of DynamoDB remember the shapes of statements that it has parsed."""
    if hasattr(dynamodb, "parse_partiql_statement"):
        dynamodb.parse_partiql_statement = Shapes(dynamodb.parse_partiql_statement).parse


class Shapes:
    """Statements by shape: the text with `?` for each whole number, and the types of the values."""

    def __init__(self, parse: Parse) -> None:
        self._parse = parse
        self._known = dict[
            tuple[Any, ...], Callable[[list[Any]], Any] | None
        ]()  # None: not equal to what MiniStack makes of it

    def parse(self, text: str, parameters: Sequence[Any] | None) -> dict[str, Any]:
        """What ``parse_partiql_statement`` of MiniStack returns and raises."""
        shape = _shape(text, parameters or ())
        if shape is None:
            return self._parse(text, parameters)
        key, values = shape
        if key in self._known:
            build = self._known[key]
            return self._parse(text, parameters) if build is None else build(values)
        parsed = self._parse(text, parameters)
        if len(self._known) < _MOST:
            self._known[key] = self._template(key[0], values, parsed)
        return parsed

    def _template(self, text: str, values: list[Any], parsed: dict[str, Any]) -> Callable[[list[Any]], Any] | None:
        holes = [_Hole(value) for value in values]
        try:
            build = _built(self._parse(text, holes), {id(hole): number for number, hole in enumerate(holes)})
        except (ValueError, TypeError, LookupError):  # MiniStack reads it otherwise with a parameter at that place
            return None
        return build if _same(build(values), parsed) else None


class _Hole(dict[str, Any]):
    """The place of a value: as the value for who looks at its type."""


def _shape(text: str, parameters: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any]] | None:
    """The key of a statement's shape, and its values in their order; None if a parameter is missing or too many, or values are compared."""
    if "<<" in text:  # a set: MiniStack refuses duplicates
        return None
    values, given = list[Any](), iter(parameters)
    is_number = list[bool]()

    def placed(found: re.Match[str]) -> str:
        part = found.group()
        if part[0] in "'\"":
            return part
        is_number.append(part != "?")
        values.append(next(given, None) if part == "?" else {"N": part})
        return "?"

    shape = _PARTS.sub(placed, text)
    if next(given, None) is not None or not all(isinstance(value, dict) and len(value) == 1 for value in values):
        return None
    return (shape, tuple(is_number), tuple(next(iter(value)) for value in values)), values


def _built(node: Any, holes: dict[int, int]) -> Callable[[list[Any]], Any]:
    """A function that makes the parsed statement anew for other values. Nothing that it returns is shared."""
    if isinstance(node, _Hole):
        place = holes[id(node)]
        return lambda values: values[place]
    if isinstance(node, tuple):
        if (
            len(node) == 3 and node[0] == "lit" and isinstance(node[1], _Hole)
        ):  # as MiniStack marks a value that is checked
            place = holes[id(node[1])]
            return lambda values: ("lit", values[place], "value")
        parts = [_built(part, holes) for part in node]
        return lambda values: tuple([part(values) for part in parts])
    if isinstance(node, list):
        parts = [_built(part, holes) for part in node]
        return lambda values: [part(values) for part in parts]
    if isinstance(node, dict):
        fields = [(key, _built(value, holes)) for key, value in node.items()]
        return lambda values: {key: value(values) for key, value in fields}
    return lambda _: node


def _same(one: Any, other: Any) -> bool:
    """Whether two parsed statements mean the same: apart from places in the text, and from how a value was written."""
    if isinstance(one, tuple) and isinstance(other, tuple) and one and other and one[0] == other[0]:
        if one[0] == "path":
            return bool(one[1] == other[1])
        if one[0] == "lit":
            return bool(one[1] == other[1])
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one if key != "item_token")
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
