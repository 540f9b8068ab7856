"""References in the payloads and conditions of tasks: ``${orders.result["rows"]}``, ``report.result["rows"] > 0``. Data, never code.

    fire.date  fire.time  fire.run_id     the pipeline's run
    payload["day"]                        its payload
    orders.result["rows"]  orders.state   a task that ended before

A text that is one ``${…}`` becomes the value itself; in a longer text each becomes text. ``$${`` stands for ``${``. Conditions have
comparisons, ``in``, ``and``, ``or`` and ``not``.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from quarterjack.domain.run import RunState
from quarterjack.errors import InvalidInput

FIRE, PAYLOAD = "fire", "payload"
OF_FIRE = ("date", "time", "run_id")
OF_TASK = ("result", "state")
LONGEST = 1_000  # characters of a condition, or of one reference
_DEEPEST = 20  # levels of a condition
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")  # the first stands for ${
_WORDS = {"true": True, "false": False, "null": None}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}


class NoValue(Exception):
    """A reference or a condition has no value by what has happened."""


@dataclass(frozen=True)
class Reference:
    """Where a value comes from."""

    root: str  # FIRE, PAYLOAD or the name of a task
    field: str  # of a fire or a task; "" of the payload
    path: tuple[str | int, ...]  # keys and places within it
    text: str  # as it was written

    @property
    def task(self) -> str | None:
        """The task that it refers to; None: the fire or the payload."""
        return None if self.root in (FIRE, PAYLOAD) else self.root


Values = Callable[[Reference], Any]  # the whole value of a root's field


# Reading.


@lru_cache(maxsize=4096)
def reference(text: str) -> Reference:
    """A reference from what stands in its braces. Raises ValueError, whose text says what is wrong."""
    found = _chain(_parsed(text))
    if found is None:
        raise ValueError(f"{text!r} is no reference; write {_REMEDY}")
    return _referred(found, text)


@lru_cache(maxsize=4096)
def condition(text: str) -> ast.expr:
    """A condition, parsed. Raises ValueError, whose text says what is wrong."""
    tree = _parsed(text)
    _check(tree, text, 0)
    return tree


_REMEDY = 'fire.date, payload["key"] or task.result["key"]'


def _parsed(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise ValueError(f"use {LONGEST:,} characters at most")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ValueError(f"{text!r} cannot be read; write {_REMEDY}, compared with ==, <, in, and, or, not") from None


def _chain(node: ast.expr) -> list[str | int] | None:
    """The names, keys and places of ``a.b["c"][0]``; None: it is something else."""
    match node:
        case ast.Name(id=name):
            return [name]
        case ast.Attribute(value=inner, attr=name):
            before = _chain(inner)
            return None if before is None else [*before, name]
        case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as key)) if not isinstance(key, bool):
            before = _chain(inner)
            return None if before is None else [*before, key]
        case ast.Subscript(value=inner, slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as key))):
            before = _chain(inner)
            return None if before is None else [*before, -key]
    return None


def _referred(chain: Sequence[str | int], text: str) -> Reference:
    first = chain[0]
    if first == PAYLOAD:
        return Reference(PAYLOAD, "", tuple(chain[1:]), text)
    if first == FIRE:
        if len(chain) != 2 or chain[1] not in OF_FIRE:
            raise ValueError(f"{text!r} is nothing of a fire; use fire.{', fire.'.join(OF_FIRE)}")
        return Reference(FIRE, str(chain[1]), (), text)
    for place, segment in enumerate(chain[1:], 1):
        if segment in OF_TASK:
            path = tuple(chain[place + 1 :])
            if segment == "state" and path:
                break
            return Reference(".".join(map(str, chain[:place])), str(segment), path, text)
    raise ValueError(f'{text!r} does not say what of a task; write TASK.result, TASK.result["key"] or TASK.state')


def _check(node: ast.expr, text: str, depth: int) -> None:  # noqa: C901, PLR0912 (a table of cases)
    if depth > _DEEPEST:
        raise ValueError(f"use {_DEEPEST} levels of and, or, not and comparisons at most")
    match node:
        case ast.BoolOp(values=parts):
            for part in parts:
                _check(part, text, depth + 1)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            _check(part, text, depth + 1)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
            pass
        case ast.Compare(left=left, ops=ops, comparators=rights):
            if any(type(op) not in _COMPARE for op in ops):
                raise ValueError("'is' is not known; compare with == or !=")
            for part in (left, *rights):
                _check(part, text, depth + 1)
            _check_states([left, *rights])
        case ast.Constant(value=str() | int() | float() | bool() | None):
            pass
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            for part in parts:
                _check(part, text, depth + 1)
        case ast.Name(id=name) if name in _WORDS:
            pass
        case _:
            found = _chain(node)
            if found is None:
                raise ValueError(
                    f"{ast.unparse(node)!r} is not known in a condition; compare references and constants with ==, <, in, and, or, not"
                )
            _referred(found, ast.unparse(node))


def _check_states(compared: Sequence[ast.expr]) -> None:
    """Refuse a text that is no state beside the state of a task: the comparison would be decided before any task runs."""
    chains = [chain for part in compared if (chain := _chain(part)) is not None and chain[0] not in _WORDS]
    single = [one for part in compared for one in (part.elts if isinstance(part, (ast.List, ast.Tuple)) else [part])]
    wrong = [one.value for one in single if isinstance(one, ast.Constant) and one.value not in [*RunState]]
    if wrong and any(_referred(chain, "").field == "state" for chain in chains):
        raise ValueError(f"{wrong[0]!r} is no state of a task; use SUCCEEDED, DEAD, LOST, EXPIRED, CANCELLED, SKIPPED")


def references_in(value: Any, path: str) -> Iterator[tuple[str, Reference]]:
    """All references of a payload with their places. Raises InvalidInput, which names the place."""
    match value:
        case str():
            if "${" in _REFERENCE.sub("", value):
                raise InvalidInput(path, value, "has ${ without }", "close it, or write $${ where the text is meant")
            for found in _REFERENCE.finditer(value):
                if found[1] is not None:
                    yield (
                        path,
                        _read(reference, found[1], path, value, "has a reference", "; or $${ where the text is meant"),
                    )
        case Mapping():
            for key, inner in value.items():
                yield from references_in(inner, f"{path}.{key}")
        case list() | tuple():
            for place, inner in enumerate(value):
                yield from references_in(inner, f"{path}[{place}]")


def references_of(text: str, path: str) -> Iterator[tuple[str, Reference]]:
    """All references of a condition. Raises InvalidInput, which names the place."""
    tree = _read(condition, text, path, text, "is a condition")
    for node in ast.walk(tree):
        chain = _chain(node) if isinstance(node, ast.expr) else None
        if chain is not None and _is_whole(tree, node) and chain[0] not in _WORDS:
            yield path, _referred(chain, ast.unparse(node))


def _is_whole(tree: ast.expr, node: ast.AST) -> bool:
    """Whether no longer chain has this one as its beginning."""
    longer = (one for one in ast.walk(tree) if isinstance(one, (ast.Attribute, ast.Subscript)))
    return not any(one.value is node for one in longer)


def is_reference(text: str) -> bool:
    """Whether a text becomes the value of a reference itself."""
    whole = _REFERENCE.fullmatch(text)
    return whole is not None and whole[1] is not None


def _read(reader: Callable[[str], Any], text: str, path: str, value: Any, what: str, more: str = "") -> Any:
    try:
        return reader(text)
    except ValueError as problem:
        raise InvalidInput(path, value, f"{what} that cannot be read", f"{problem}{more}") from None


# Values.


def filled(value: Any, values: Values) -> Any:
    """A payload with its references replaced. Raises NoValue."""
    match value:
        case str():
            return _text(value, values)
        case Mapping():
            return {key: filled(inner, values) for key, inner in value.items()}
        case list() | tuple():
            return [filled(inner, values) for inner in value]
    return value


def _text(text: str, values: Values) -> Any:
    if is_reference(text):
        return found_at(reference(text[2:-1]), values)

    def replaced(found: re.Match[str]) -> str:
        if found[1] is None:
            return "${"
        inner = found_at(reference(found[1]), values)
        return inner if isinstance(inner, str) else json.dumps(inner)

    return _REFERENCE.sub(replaced, text)


def found_at(place: Reference, values: Values) -> Any:
    """The value of a reference. Raises NoValue, with the part that is missing."""
    found = values(place)
    for key in place.path:
        try:
            found = found[key]
        except (KeyError, IndexError, TypeError):
            raise NoValue(f"{place.text} has no value: there is no {key!r} in {_short(found)}") from None
    return found


def holds(text: str, values: Values) -> bool:
    """Whether a condition holds. Raises NoValue if it cannot be judged: a missing key, a text compared with a number."""
    try:
        return bool(_value(condition(text), values))
    except TypeError as problem:
        raise NoValue(f"{text} cannot be judged: {problem}") from None


def _value(node: ast.expr, values: Values) -> Any:  # noqa: C901, PLR0911 (a table of cases)
    match node:
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, values) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_value(part, values) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return not _value(part, values)
        case ast.UnaryOp(operand=ast.Constant(value=number)):
            return -number  # type: ignore[operator]
        case ast.Compare(left=left, ops=ops, comparators=rights):
            one = _value(left, values)
            for op, right in zip(ops, rights, strict=True):
                other = _value(right, values)
                if not _COMPARE[type(op)](one, other):
                    return False
                one = other
            return True
        case ast.Constant(value=constant):
            return constant
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_value(part, values) for part in parts]
        case ast.Name(id=name) if name in _WORDS:
            return _WORDS[name]
    chain = _chain(node)
    assert chain is not None, "it was checked"
    return found_at(_referred(chain, ast.unparse(node)), values)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
