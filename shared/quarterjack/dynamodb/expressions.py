"""Conditions, keys and changes as expressions of DynamoDB, which PynamoDB renders."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import starmap
from operator import and_, or_
from types import MappingProxyType
from typing import Any

from quarterjack.dynamodb.items import encode
from quarterjack.state.transition import (
    OPERATORS,
    Absent,
    AllOf,
    AnyOf,
    Change,
    Compare,
    Condition,
    Once,
    OneOf,
    Plus,
    Value,
)
from quarterjack.stores.tables import RowQuery


def expressions(
    changes: Mapping[str, Change] = MappingProxyType({}), **clauses: Condition | RowQuery | None
) -> dict[str, Any]:
    """The arguments of a request that state clauses and changes, with the names and values to which they refer."""
    from pynamodb.expressions.update import Update  # noqa: PLC0415 (loads a part of botocore: 40 ms, which `import quarterjack` need not take)

    names: dict[str, str] = {}
    values: dict[str, str] = {}
    texts = {
        argument: _condition(clause).serialize(names, values)
        for argument, clause in clauses.items()
        if clause is not None
    }
    if changes:
        texts["UpdateExpression"] = Update(*starmap(_action, changes.items())).serialize(names, values)
    if names:
        texts["ExpressionAttributeNames"] = {placeholder: name for name, placeholder in names.items()}
    return texts | ({"ExpressionAttributeValues": values} if values else {})


def _condition(clause: Condition | RowQuery) -> Any:
    """A clause, or the keys of a query, as a condition of PynamoDB's."""
    match clause:
        case Compare(attribute, symbol, value):
            return OPERATORS[symbol](_path(attribute), _value(value))
        case OneOf(attribute, values):
            return _path(attribute).is_in(*map(_value, values))
        case Absent(attribute):
            return _path(attribute).does_not_exist()
        case AllOf(parts):
            return reduce(and_, map(_condition, parts))
        case AnyOf(parts):
            return reduce(or_, map(_condition, parts))
        case RowQuery(table=table, partition=partition, first=first, last=last):
            keys = _path(table.range_key).between(_value(first), _value(last))
            return (_path(table.hash_key) == _value(partition)) & keys


def _path(attribute: str) -> Any:
    from pynamodb.expressions.operand import Path  # noqa: PLC0415

    return Path([attribute])


def _value(value: Value) -> Any:
    from pynamodb.expressions.operand import Value as Operand  # noqa: PLC0415

    return Operand(encode(value))


def _action(attribute: str, change: Change) -> Any:
    """A change of one attribute as an action of PynamoDB's."""
    path = _path(attribute)
    match change:
        case None:
            return path.remove()
        case Plus(amount):
            return path.add(_value(amount))
        case Once(value):
            return path.set(path | _value(value))
        case _:
            return path.set(_value(change))
