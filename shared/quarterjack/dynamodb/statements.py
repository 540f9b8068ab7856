"""Writes as PartiQL statements, many of which go in one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import count, islice
from operator import itemgetter
from types import NoneType
from typing import Any, NamedTuple

from quarterjack.domain.run import RunState
from quarterjack.dynamodb.items import encode_all
from quarterjack.state.transition import Absent, AllOf, Compare, Condition, Once, OneOf, Plus, Value
from quarterjack.stores.rows import present
from quarterjack.stores.tables import Row, RowWrite

_Guard = tuple[str, str, int]  # attribute, operator, number of values that it is compared with
_Pick = Callable[[Sequence[Any]], tuple[Any, ...]]  # takes some of all values
_IN_TEXT = {int: "%s", RunState: "'%s'"}  # by the type of a value

# Every claim has these values. They are literals in the statement's text, which is made once, and not parameters, which
# are serialised one by one: a tenth of a tick's processor time.
_LITERALS: Mapping[str, str] = {"state": "'QUEUED'", "fence": "0", "attempt": "0"}


def statement(table: str, write: RowWrite, *, returning: bool = False) -> dict[str, Any]:
    """A put of a new row, or an update with plain changes and a guard of ANDed clauses, as a PartiQL statement.

    ``returning`` the new row. Raises TypeError for another write.
    """
    if write.kind == "put":
        text, parameters = _insert(table, present(write.row))
    else:
        text, parameters = _update(table, write)
        text += " RETURNING ALL NEW *" if returning else ""
    return {"Statement": text, "Parameters": parameters, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


def _insert(table: str, row: Row) -> tuple[str, list[dict[str, Any]]]:
    literal = (row.get("state"), row.get("fence"), row.get("attempt")) == ("QUEUED", 0, 0)
    text, given = _insert_shape(table, tuple(row), literal)
    return text, encode_all(given([*row.values()]))


@lru_cache(maxsize=64)
def _insert_shape(table: str, names: tuple[str, ...], literal: bool) -> tuple[str, _Pick]:  # noqa: FBT001 (a cache key)
    """The text, and the values that are parameters."""
    literals = _LITERALS if literal else {}
    fields = (f"'{name}': {literals.get(name, '?')}" for name in names)
    given = [place for place, name in enumerate(names) if name not in literals]
    return f'INSERT INTO "{table}" VALUE {{{", ".join(fields)}}}', _those_at(given)


class _Shape(NamedTuple):
    """What the statements of updates have in common that differ in their values alone."""

    text: str  # with %s for each value that stands in the text
    written: _Pick  # of an update's values, those in the text
    given: _Pick  # of an update's values, the parameters


def _update(table: str, write: RowWrite) -> tuple[str, list[dict[str, Any]]]:
    """Numbers and states stand in the text: as parameters they take twice the bytes, serialised and signed. All else is a parameter."""
    guards, compared = list[_Guard](), list[Value]()
    if write.only_if is not None:
        _collect(write.only_if, guards, compared)
    values = [*write.row.values(), *compared]
    names, parts = (table, write.table.hash_key, write.table.range_key, *write.row), tuple(guards)
    shape = _shape(names, parts, tuple(map(type, values)))
    written = [*map(str, shape.written(values))]
    if "-" in "".join(written):  # of a negative number, which is a parameter, as text is
        shape = _shape(
            names, parts, tuple(str if isinstance(each, int) and each < 0 else type(each) for each in values)
        )
        written = [*map(str, shape.written(values))]
    return shape.text % tuple(written), encode_all(shape.given(values))


def _collect(clause: Condition, guards: list[_Guard], compared: list[Value]) -> None:
    """Append the parts of a clause, all of which must hold, and the values that they compare with."""
    for part in clause.parts if isinstance(clause, AllOf) else (clause,):
        if isinstance(part, Compare):
            guards.append((part.attribute, part.operator, 1))
            compared.append(part.value)
        elif isinstance(part, Absent):
            guards.append((part.attribute, "IS MISSING", 0))
        elif isinstance(part, OneOf):
            guards.append((part.attribute, "IN", len(part.values)))
            compared += part.values
        elif isinstance(part, AllOf):
            _collect(part, guards, compared)
        else:
            raise TypeError(
                f"a batched guard has no alternatives, not {part}: not every engine reads OR beside the key"
            )


@lru_cache(maxsize=256)
def _shape(names: tuple[str, ...], guards: tuple[_Guard, ...], kinds: tuple[type, ...]) -> _Shape:
    """``names``: of the table, of its key, of the row's attributes; ``kinds``: the types of their values, and of those compared with.

    Raises TypeError for a change that depends on the row.
    """
    table, hash_key, range_key, *attributes = names
    written, given = list[int](), list[int]()

    def operand(place: int) -> str:
        if kinds[place] in (Plus, Once):
            raise TypeError(f"an update of {attributes[place]} cannot be batched: it depends on the row")
        (written if kinds[place] in _IN_TEXT else given).append(place)
        return _IN_TEXT.get(kinds[place], "?")

    sets = [
        f'REMOVE "{name}"' if kinds[place] is NoneType else f'SET "{name}"={operand(place)}'
        for place, name in enumerate(attributes)
        if name not in (hash_key, range_key)
    ]
    conditions = [f'"{name}"={operand(attributes.index(name))}' for name in (hash_key, range_key)]
    places = count(len(attributes))
    for attribute, operator, compared in guards:
        operands = [operand(place) for place in islice(places, compared)]
        conditions.append(f'"{attribute}" {_compared(operator, operands)}')
    text = f'UPDATE "{table}" {" ".join(sets)} WHERE {" AND ".join(conditions)}'
    return _Shape(text, _those_at(written), _those_at(given))


def _compared(operator: str, operands: Sequence[str]) -> str:
    if operator == "IN":
        return f"IN [{', '.join(operands)}]"
    return " ".join((operator, *operands))


def _those_at(places: Sequence[int]) -> _Pick:
    """Takes the values at these places."""
    return itemgetter(*places) if len(places) > 1 else lambda values: tuple(values[place] for place in places)
