"""Render conditions and transitions: as expressions of DynamoDB's own operations, and as one PartiQL statement."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from minutehand.domain.names import RunRef
from minutehand.dynamodb.rows import encode
from minutehand.state.transition import (
    Absent,
    AllOf,
    AnyOf,
    Change,
    Compare,
    Condition,
    Once,
    OneOf,
    Plus,
    Transition,
    Value,
)


class ExpressionWords:
    """The words of an expression. It collects the values that the expression refers to: ``:v0`` stands for ``values["v0"]``."""

    absent, one_of = "attribute_not_exists({})", "{} IN ({})"

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}

    def name(self, attribute: str) -> str:
        return f"#{attribute}"

    def value(self, value: Value) -> str:
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    def either(self, parts: list[str]) -> str:
        return f"({' OR '.join(parts)})"


class StatementWords(ExpressionWords):
    """The words of a PartiQL statement; its values are parameters by their place."""

    absent, one_of = "{} IS MISSING", "{} IN [{}]"

    def __init__(self) -> None:
        self.parameters: list[dict[str, Any]] = []

    def name(self, attribute: str) -> str:
        return f'"{attribute}"'

    def value(self, value: Value) -> str:
        self.parameters.append(encode(value))
        return "?"

    def either(self, parts: list[str]) -> str:
        raise TypeError(f"a batched guard has no alternatives, not {parts}: not every engine reads OR beside the key")


def condition(clause: Condition, words: ExpressionWords) -> str:
    """A clause in the words of an expression or statement."""
    match clause:
        case Compare(attribute, symbol, value):
            return f"{words.name(attribute)} {symbol} {words.value(value)}"
        case OneOf(attribute, values):
            return words.one_of.format(words.name(attribute), ", ".join(map(words.value, values)))
        case Absent(attribute):
            return words.absent.format(words.name(attribute))
        case AllOf(parts):
            return " AND ".join([condition(part, words) for part in parts])
        case AnyOf(parts):
            return words.either([condition(part, words) for part in parts])


def update(changes: Mapping[str, Change], words: ExpressionWords) -> str:
    """Changes as an update expression."""
    sets = [f"#{name} = {_new(name, change, words)}" for name, change in changes.items() if change is not None]
    removes = [f"#{name}" for name, change in changes.items() if change is None]
    return " ".join(f"{word} {', '.join(parts)}" for word, parts in (("SET", sets), ("REMOVE", removes)) if parts)


def _new(name: str, change: Value | Plus | Once, words: ExpressionWords) -> str:
    match change:
        case Plus(amount):
            return f"#{name} + {words.value(amount)}"
        case Once(value):
            return f"if_not_exists(#{name}, {words.value(value)})"
        case _:
            return words.value(change)


def update_arguments(transition: Transition) -> dict[str, Any]:
    """A transition as arguments of ``TableClient.call("update_item")``; the old row comes back if it is refused."""
    words = ExpressionWords()
    return {
        "UpdateExpression": update(transition.changes, words),
        "ConditionExpression": condition(transition.guard, words),
        "values": words.values,
        "ReturnValues": "ALL_NEW",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


# Every claim has these values. They are literals in the statement's text, which is made once, and not parameters, which
# are serialised one by one: a tenth of a tick's processor time.
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


def update_statement(table: str, ref: RunRef, transition: Transition, *, returning: bool = False) -> dict[str, Any]:
    """A transition with plain changes and a guard of ANDed clauses as a PartiQL statement; ``returning`` the new row.

    Raises TypeError for another transition.
    """
    words, changed = StatementWords(), []
    for name, change in transition.changes.items():
        if isinstance(change, (Plus, Once)):
            raise TypeError(f"transition {transition.name} cannot be batched: {name} depends on the row")
        changed.append(f'REMOVE "{name}"' if change is None else f'SET "{name}"={words.value(change)}')
    words.parameters += ({"S": ref.owner}, {"S": ref.key})
    guard = condition(transition.guard, words)
    returned = " RETURNING ALL NEW *" if returning else ""
    return {
        "Statement": f'UPDATE "{table}" {" ".join(changed)} WHERE "owner"=? AND "key"=? AND {guard}{returned}',
        "Parameters": words.parameters,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
