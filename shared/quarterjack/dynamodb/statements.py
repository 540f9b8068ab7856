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
    keys, parameters = write.key, list[dict[str, Any]]()
    changed = [
        f'REMOVE "{name}"' if change is None else f'SET "{name}"={_operand(change, parameters)}'
        for name, change in write.row.items()
        if name not in keys
    ]
    guards = [f'"{name}"={_operand(value, parameters)}' for name, value in keys.items()]
    if write.only_if is not None:
        guards += _guards(write.only_if, parameters)
    return f'UPDATE "{table}" {" ".join(changed)} WHERE {" AND ".join(guards)}', parameters


def _guards(clause: Condition, parameters: list[dict[str, Any]]) -> list[str]:
    """The parts of a clause, all of which must hold. It appends the statement's ``parameters``."""
    guards = list[str]()
    for part in clause.parts if isinstance(clause, AllOf) else (clause,):
        if isinstance(part, Compare):
            guards.append(f'"{part.attribute}" {part.operator} {_operand(part.value, parameters)}')
        elif isinstance(part, Absent):
            guards.append(f'"{part.attribute}" IS MISSING')
        elif isinstance(part, OneOf):
            values = ", ".join([_operand(value, parameters) for value in part.values])
            guards.append(f'"{part.attribute}" IN [{values}]')
        elif isinstance(part, AllOf):
            guards += _guards(part, parameters)
        else:
            raise TypeError(
                f"a batched guard has no alternatives, not {part}: not every engine reads OR beside the key"
            )
    return guards


def _operand(value: Value | Plus | Once, parameters: list[dict[str, Any]]) -> str:
    """Numbers and states stand in the text: as parameters they take twice the bytes, serialised and signed. All else is a parameter.

    Raises TypeError for a change that depends on the row.
    """
    if type(value) is int and value >= 0:
        return str(value)
    if type(value) is RunState:
        return f"'{value}'"
    if isinstance(value, (Plus, Once)):
        raise TypeError(f"an update with {value} cannot be batched: it depends on the row")
    parameters.append(encode(value))
    return "?"
