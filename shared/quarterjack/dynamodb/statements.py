"""Writes as PartiQL statements, many of which go in one request."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from quarterjack.domain.run import RunState
from quarterjack.dynamodb.items import encode
from quarterjack.state.transition import Absent, AllOf, Compare, Condition, Once, OneOf, Plus, Value
from quarterjack.stores.rows import present
from quarterjack.stores.tables import Row, RowWrite

# Every claim has these values. They are literals in the statement's text, which is made once, and not parameters, which
# are serialised one by one: a tenth of a tick's processor time.
_LITERALS: Mapping[str, tuple[Value, str]] = {"state": ("QUEUED", "'QUEUED'"), "fence": (0, "0"), "attempt": (0, "0")}


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
    literal = all(row.get(name) == value for name, (value, _) in _LITERALS.items())
    parameters = [encode(value) for name, value in row.items() if not (literal and name in _LITERALS)]
    return _insert_text(table, tuple(row), literal), parameters


@lru_cache(maxsize=64)
def _insert_text(table: str, names: tuple[str, ...], literal: bool) -> str:  # noqa: FBT001 (a cache key)
    fields = (f"'{name}': {_LITERALS[name][1] if literal and name in _LITERALS else '?'}" for name in names)
    return f'INSERT INTO "{table}" VALUE {{{", ".join(fields)}}}'


def _update(table: str, write: RowWrite) -> tuple[str, list[dict[str, Any]]]:
    keys, changed, parameters = write.key, list[str](), list[dict[str, Any]]()
    for name, change in write.row.items():
        if change is None:
            changed.append(f'REMOVE "{name}"')
        elif isinstance(change, (Plus, Once)):
            raise TypeError(f"an update of {keys} cannot be batched: {name} depends on the row")
        elif name not in keys:
            changed.append(f'SET "{name}"={_operand(change, parameters)}')
    guards = [f'"{name}"={_operand(value, parameters)}' for name, value in keys.items()]
    if write.only_if is not None:
        guards.append(guard(write.only_if, parameters))
    return f'UPDATE "{table}" {" ".join(changed)} WHERE {" AND ".join(guards)}', parameters


def guard(clause: Condition, parameters: list[dict[str, Any]]) -> str:
    """A clause of a statement. It appends the statement's ``parameters``."""
    if isinstance(clause, Compare):
        return f'"{clause.attribute}" {clause.operator} {_operand(clause.value, parameters)}'
    if isinstance(clause, Absent):
        return f'"{clause.attribute}" IS MISSING'
    if isinstance(clause, OneOf):
        return f'"{clause.attribute}" IN [{", ".join([_operand(value, parameters) for value in clause.values])}]'
    if isinstance(clause, AllOf):
        return " AND ".join([guard(part, parameters) for part in clause.parts])
    raise TypeError(f"a batched guard has no alternatives, not {clause}: not every engine reads OR beside the key")


def _operand(value: Value, parameters: list[dict[str, Any]]) -> str:
    """Numbers and states stand in the text: as parameters they take twice the bytes, serialised and signed. All else is a parameter."""
    if type(value) is int and value >= 0:
        return str(value)
    if type(value) is RunState:
        return f"'{value}'"
    parameters.append(encode(value))
    return "?"
