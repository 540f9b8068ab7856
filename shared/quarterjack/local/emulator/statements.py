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

Build = Callable[[list[Any]], dict[str, Any]]
Parse = Callable[[str, Sequence[Any] | None], dict[str, Any]]

_PARTS = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|\?|(?<![\w.?])(?:0|[1-9]\d{0,17})(?![\w.]))""")
_NUMBER = "\0"  # in a shape; no statement has it
_WRITES = ("INSERT", "UPDATE", "DELETE")
_MOST = 1_000  # shapes remembered: this package has a few dozen


def remember_statements(dynamodb: Any) -> None:
    """Let MiniStack's module of DynamoDB remember the shapes of statements that it has parsed."""
    if hasattr(dynamodb, "parse_partiql_statement"):
        dynamodb.parse_partiql_statement = Shapes(dynamodb.parse_partiql_statement).parse


class Shapes:
    """Statements by shape: the text with `?` for each whole number, and the types of the values."""

    def __init__(self, parse: Parse) -> None:
        self._parse = parse
        self._latest: tuple[Any, ...] | None = (
            None  # text, parameters and result: a batch parses each of its statements twice
        )
        self._known = dict[tuple[Any, ...], Build | None]()  # None: not equal to what MiniStack makes of it

    def parse(self, text: str, parameters: Sequence[Any] | None) -> dict[str, Any]:
        """What ``parse_partiql_statement`` of MiniStack returns and raises."""
        latest, self._latest = self._latest, None
        if latest is not None and latest[0] is text and latest[1] is parameters:
            return latest[2]  # type: ignore[no-any-return]
        parsed = self._parsed(text, parameters)
        if parsed["op"] in _WRITES:  # MiniStack rewrites what it has parsed of a select
            self._latest = text, parameters, parsed
        return parsed

    def _parsed(self, text: str, parameters: Sequence[Any] | None) -> dict[str, Any]:
        shape = _shape(text, parameters or ())
        if shape is None:
            return self._parse(text, parameters)
        key, values = shape
        if key in self._known:
            build = self._known[key]
            return self._parse(text, parameters) if build is None else build(values)
        parsed = self._parse(text, parameters)
        if len(self._known) < _MOST:
            self._known[key] = self._template(key[0].replace(_NUMBER, "?"), values, parsed)
        return parsed

    def _template(self, text: str, values: list[Any], parsed: dict[str, Any]) -> Build | None:
        holes = [_Hole(value) for value in values]
        try:
            source = _source(self._parse(text, holes), {id(hole): number for number, hole in enumerate(holes)})
        except (ValueError, TypeError, LookupError):  # MiniStack reads it otherwise with a parameter at that place
            return None
        build: Build = eval(f"lambda v: {source}", {})  # noqa: S307 (made of literals and of v[number])
        return build if _same(build(values), parsed) else None


class _Hole(dict[str, Any]):
    """The place of a value: as the value for who looks at its type."""


def _shape(text: str, parameters: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any]] | None:
    """The key of a statement's shape, and its values in their order; None if a parameter is missing or too many, or values are compared."""
    if "<<" in text:  # a set: MiniStack refuses duplicates
        return None
    parts, values, given = _PARTS.split(text), list[Any](), iter(parameters)
    for place in range(1, len(parts), 2):
        part = parts[place]
        if part == "?":
            values.append(next(given, None))
        elif part[0].isdecimal():
            values.append({"N": part})
            parts[place] = _NUMBER
    if next(given, None) is not None or not all(isinstance(value, dict) and len(value) == 1 for value in values):
        return None
    return ("".join(parts), *[kind for value in values for kind in value]), values


def _source(node: Any, holes: dict[int, int]) -> str:
    """A Python expression that makes the parsed statement anew for values ``v``. Nothing of it is shared between statements."""
    if isinstance(node, _Hole):
        return f"v[{holes[id(node)]}]"
    if isinstance(node, tuple):
        if node[:1] == ("lit",) and isinstance(node[1], _Hole):
            return f"('lit', v[{holes[id(node[1])]}], 'value')"  # as MiniStack marks a value that it has checked
        return f"({''.join(_source(part, holes) + ',' for part in node)})"
    if isinstance(node, list):
        return f"[{','.join(_source(part, holes) for part in node)}]"
    if isinstance(node, dict):
        return f"{{{','.join(f'{key!r}: {_source(value, holes)}' for key, value in node.items())}}}"
    if node is not None and not isinstance(node, (str, int)):
        raise TypeError(f"{node!r} is no part of a parsed statement")
    return repr(node)


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
