"""MiniStack's PartiQL statements, parsed once a shape, and the answers of a batch written once.

The statements of a package differ in their numbers, which stand in the text, and in their parameters, and have few shapes. MiniStack
(1.5) parses each statement anew, and one of a batch twice: a third of the emulator's processor time in a burst. It also writes the
answer of each statement of a batch as JSON, which it reads again at once. ``quicken_statements`` replaces ``_parse_partiql`` and
``_batch_execute_statement`` of ``ministack.services.dynamodb``. The meaning stays MiniStack's: the first statement of a shape is parsed by
MiniStack both as it stands and with placeholders for its values, and the shape is remembered only if the second, with the values put in,
equals the first. A release without these names is left as it is.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

Build = Callable[[list[Any]], dict[str, Any]]
Answer = tuple[int, dict[str, str], Any]  # HTTP status, headers, body

# `?` or a whole number, each by itself; it begins with what it looks for, so that `re` skips the rest. In texts, too: the first statement
# of a shape shows that MiniStack reads that otherwise. A name of a table has no such number: it consists of letters, digits and `_.-`.
_PARTS = re.compile(r"([0-9?](?<![\w.?-].)(?:(?<=[0?])(?!\d)|(?<![0?])\d{0,17})(?![\w.-]))")
_NUMBER = "\0"  # in a shape; no statement has it
_WRITES = ("INSERT", "UPDATE", "DELETE")
_NEEDED = (
    *("_parse_partiql", "_partiql_parameter_error", "_compare_ddb", "_pq_eval", "_pq_truthy"),
    *("_batch_execute_statement", "json", "json_response"),
)
_MOST = 1_000  # shapes remembered: this package has a few dozen


def quicken_statements(dynamodb: Any) -> None:
    """Let MiniStack's module of DynamoDB remember the shapes of statements that it has parsed, and write a batch's answer once."""
    if all(hasattr(dynamodb, name) for name in _NEEDED):
        dynamodb._parse_partiql = Shapes(dynamodb).parse  # noqa: SLF001 (there is no other way in)
        _Batches(dynamodb).install()


class Shapes:
    """Statements by shape: the text with `?` for each whole number, and the types of the values."""

    def __init__(self, dynamodb: Any) -> None:
        self._parse = dynamodb._parse_partiql  # noqa: SLF001 (the same)
        self._refusal = dynamodb._partiql_parameter_error  # noqa: SLF001 (the same)
        self._functions = {
            "compare": dynamodb._compare_ddb,  # noqa: SLF001 (the same)
            "value": dynamodb._pq_eval,  # noqa: SLF001 (the same)
            "is_true": dynamodb._pq_truthy,  # noqa: SLF001 (the same)
        }
        self._latest: tuple[Any, ...] | None = (
            None  # text, parameters and result: a batch parses each of its statements twice
        )
        self._known = dict[tuple[Any, ...], Build | None]()  # None: not equal to what MiniStack makes of it

    def parse(self, text: str, parameters: Sequence[Any] | None) -> dict[str, Any]:
        """What ``_parse_partiql`` of MiniStack returns and raises."""
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
            return self._parse(text, parameters)  # type: ignore[no-any-return]
        key, values = shape
        if key not in self._known:
            parsed: dict[str, Any] = self._parse(text, parameters)
            if len(self._known) < _MOST:
                self._known[key] = self._template(key[0].replace(_NUMBER, "?"), values, parsed)
            return parsed
        build = self._known[key]
        if build is None or any("S" not in value and self._refusal(value) for value in parameters or ()):
            return self._parse(text, parameters)  # type: ignore[no-any-return]
        return build(values)

    def _template(self, text: str, values: list[Any], parsed: dict[str, Any]) -> Build | None:
        holes = [_Hole(value) for value in values]
        places = {id(hole): number for number, hole in enumerate(holes)}
        try:
            read = _without_check(self._parse(text, holes))
            source, check = _source(read, places), _check(read.get("where"), places)
            build: Build = eval(f"lambda v: {{**{source}, 'where_fn': {check}}}", self._functions)  # noqa: S307 (made of literals, `v[number]` and MiniStack's functions)
        except (ValueError, TypeError, LookupError):  # MiniStack reads it otherwise with a parameter at that place
            return None
        except (SyntaxError, RecursionError, MemoryError):  # more levels than Python's parser takes
            return None
        return build if _same(_without_check(build(values)), _without_check(parsed)) else None


class _Batches:
    """While a batch is executed, the bodies of its statements are what they say, not yet written."""

    def __init__(self, dynamodb: Any) -> None:
        self._dynamodb = dynamodb
        self._execute, self._respond = dynamodb._batch_execute_statement, dynamodb.json_response  # noqa: SLF001 (the same)
        self._current = threading.local()  # its `is_batch`

    def install(self) -> None:
        module = self._dynamodb
        module._batch_execute_statement = self.execute  # noqa: SLF001 (the same)
        module.json_response = self.respond
        module.json = SimpleNamespace(**vars(json) | {"loads": self.load})

    def execute(self, data: Any) -> Answer:
        self._current.is_batch = True
        try:
            status, headers, body = self._execute(data)
        finally:
            self._current.is_batch = False
        return status, headers, json.dumps(body.content, ensure_ascii=False).encode() if type(body) is _Body else body

    def respond(self, data: Any, status: int = 200, **how: Any) -> Answer:
        if getattr(self._current, "is_batch", False) and not how:
            return status, {"Content-Type": "application/x-amz-json-1.0"}, _Body(data)
        return self._respond(data, status, **how)  # type: ignore[no-any-return]

    def load(self, text: Any, **how: Any) -> Any:
        return text.content if type(text) is _Body else json.loads(text, **how)


class _Body:
    """What the body of an answer says."""

    def __init__(self, content: Any) -> None:
        self.content = content


class _Hole(dict[str, Any]):
    """The place of a value: as the value for who looks at its type."""


def _without_check(parsed: dict[str, Any]) -> dict[str, Any]:
    """Without the function that checks an item. Raises LookupError for a statement with a second one in it."""
    if parsed["op"] == "EXISTS":
        raise LookupError("EXISTS")
    return {name: value for name, value in parsed.items() if name != "where_fn"}


def _shape(text: str, parameters: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any]] | None:
    """The key of a statement's shape, and its values in their order; None if a parameter is missing or too many, or values are compared."""
    if "<<" in text:  # a set: MiniStack refuses duplicates
        return None
    parts, values, given = _PARTS.split(text), list[Any](), iter(parameters)
    for place in range(1, len(parts), 2):
        part = parts[place]
        if part == "?":
            values.append(next(given, None))
        else:
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


def _check(where: Any, holes: dict[int, int]) -> str:
    """A Python expression for the function that says whether ``where`` holds for an item; None without one."""
    return "None" if where is None else f"lambda item: {_condition(where, holes)}"


def _condition(node: Any, holes: dict[int, int]) -> str:
    """As ``_pq_eval`` of MiniStack reads it, which decides what this package's statements do not have."""
    kind = node[0]
    if kind in ("and", "or"):
        return f"({_condition(node[1], holes)} {kind} {_condition(node[2], holes)})"
    if kind == "cmp":
        return f"compare({_operand(node[2], holes)}, {node[1]!r}, {_operand(node[3], holes)})"
    if kind == "is" and node[2] == "MISSING":
        return f"(({_operand(node[1], holes)} is None) != {node[3]!r})"
    return f"is_true(value({_source(node, holes)}, item))"


def _operand(node: Any, holes: dict[int, int]) -> str:
    if node[0] == "path" and len(node[1]) == 1:
        return f"item.get({node[1][0]!r})"
    if node[0] == "lit":
        return _source(node[1], holes)
    return f"value({_source(node, holes)}, item)"


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
