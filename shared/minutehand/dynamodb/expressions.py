"""Render clauses and transitions: as a condition and update expression, and as one PartiQL statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from minutehand.domain.names import RunRef
from minutehand.dynamodb.rows import encode
from minutehand.state.conditions import Absent, AllOf, AnyOf, Compare, Condition, OneOf, Value
from minutehand.state.transitions.transition import Change, Once, Plus, Transition


@dataclass
class Placeholders:
    """Names and values of one expression. Every name gets a placeholder, because many words are reserved."""

    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, dict[str, Any]] = field(default_factory=dict)

    def name(self, attribute: str) -> str:
        self.names[f"#{attribute}"] = attribute
        return f"#{attribute}"

    def value(self, value: Value) -> str:
        placeholder = f":{len(self.values)}"
        self.values[placeholder] = encode(value)
        return placeholder


def condition(clause: Condition, use: Placeholders) -> str:
    """A clause as a condition expression."""
    match clause:
        case Compare(attribute, symbol, value):
            return f"{use.name(attribute)} {symbol} {use.value(value)}"
        case OneOf(attribute, values):
            return f"{use.name(attribute)} IN ({', '.join(use.value(v) for v in values)})"
        case Absent(attribute):
            return f"attribute_not_exists({use.name(attribute)})"
        case AllOf(parts):
            return " AND ".join(f"({condition(part, use)})" for part in parts)
        case AnyOf(parts):
            return " OR ".join(f"({condition(part, use)})" for part in parts)


def update(changes: Mapping[str, Change], use: Placeholders) -> str:
    """Changes as an update expression."""
    sets = [f"{use.name(name)} = {_new(name, change, use)}" for name, change in changes.items() if change is not None]
    removes = [use.name(name) for name, change in changes.items() if change is None]
    return " ".join(f"{word} {', '.join(parts)}" for word, parts in (("SET", sets), ("REMOVE", removes)) if parts)


def _new(name: str, change: Value | Plus | Once, use: Placeholders) -> str:
    match change:
        case Plus(amount):
            return f"{use.name(name)} + {use.value(amount)}"
        case Once(value):
            return f"if_not_exists({use.name(name)}, {use.value(value)})"
        case _:
            return use.value(change)


def update_arguments(table: str, ref: RunRef, transition: Transition) -> dict[str, Any]:
    """A transition as the arguments of ``update_item``; the old row comes back if it is refused."""
    use = Placeholders()
    return {
        "TableName": table,
        "Key": {"owner": {"S": ref.owner}, "key": {"S": ref.key}},
        "UpdateExpression": update(transition.changes, use),
        "ConditionExpression": condition(transition.guard, use),
        "ExpressionAttributeNames": use.names,
        "ExpressionAttributeValues": use.values,
        "ReturnValues": "ALL_NEW",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


# Every claim begins so. As literals they are in the statement's text, which is made once, and not among the parameters,
# which botocore serialises one by one: a tenth of a tick's CPU.
_LITERALS: Mapping[str, tuple[Value, str]] = {"state": ("QUEUED", "'QUEUED'"), "fence": (0, "0"), "attempt": (0, "0")}


def insert_statement(table: str, row: Mapping[str, Value]) -> dict[str, Any]:
    """A PartiQL statement that puts a run's row unless its key exists."""
    literal = all(row.get(name) == value for name, (value, _) in _LITERALS.items())
    return {
        "Statement": _insert_text(table, tuple(row), literal),
        "Parameters": [encode(value) for name, value in row.items() if not (literal and name in _LITERALS)],
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


@lru_cache(maxsize=64)
def _insert_text(table: str, names: tuple[str, ...], literal: bool) -> str:  # noqa: FBT001 (a cache key)
    fields = (f"'{name}': {_LITERALS[name][1] if literal and name in _LITERALS else '?'}" for name in names)
    return f'INSERT INTO "{table}" VALUE {{{", ".join(fields)}}}'


_REMOVE = "-"  # before the name of an attribute that is removed


def update_statement(table: str, ref: RunRef, transition: Transition, *, returning: bool = False) -> dict[str, Any]:
    """A transition with plain changes and a guard of ANDed clauses as a PartiQL statement; ``returning`` the new row."""
    parameters: list[dict[str, Any]] = []
    changed: list[str] = []
    for name, change in transition.changes.items():
        if change is None:
            changed.append(_REMOVE + name)
        elif isinstance(change, (Plus, Once)):
            raise TypeError(f"transition {transition.name} cannot be batched: {name} depends on the row")
        else:
            changed.append(name)
            parameters.append(encode(change))
    parameters += ({"S": ref.owner}, {"S": ref.key})
    conditions: list[tuple[str, str, int]] = []
    _collect(transition.guard, conditions, parameters)
    return {
        "Statement": _update_text(table, tuple(changed), tuple(conditions), returning),
        "Parameters": parameters,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def _collect(clause: Condition, conditions: list[tuple[str, str, int]], parameters: list[dict[str, Any]]) -> None:
    """The conditions of a guard as attribute, operator and number of parameters; and the parameters."""
    if isinstance(clause, Compare):
        conditions.append((clause.attribute, clause.operator, 1))
        parameters.append(encode(clause.value))
    elif isinstance(clause, AllOf):
        for part in clause.parts:
            _collect(part, conditions, parameters)
    elif isinstance(clause, Absent):
        conditions.append((clause.attribute, "IS MISSING", 0))
    elif isinstance(clause, OneOf):
        conditions.append((clause.attribute, "IN", len(clause.values)))
        parameters += [encode(value) for value in clause.values]
    else:
        raise TypeError("a batched guard has no alternatives: not every engine reads OR beside the key")


@lru_cache(maxsize=64)
def _update_text(
    table: str,
    changed: tuple[str, ...],
    conditions: tuple[tuple[str, str, int], ...],
    returning: bool,  # noqa: FBT001 (a cache key)
) -> str:
    sets = (f'REMOVE "{name[1:]}"' if name[0] == _REMOVE else f'SET "{name}"=?' for name in changed)
    guards = (f' AND "{attribute}" {_compared(operator, count)}' for attribute, operator, count in conditions)
    asked = " RETURNING ALL NEW *" if returning else ""
    return f'UPDATE "{table}" {" ".join(sets)} WHERE "owner"=? AND "key"=?{"".join(guards)}{asked}'


def _compared(operator: str, count: int) -> str:
    if operator == "IN":
        return f"IN [{', '.join('?' * count)}]"
    return f"{operator} ?" if count else operator
