"""Conditions on a run's row as data: each driver renders or evaluates the same clauses, so they cannot drift apart."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minutehand.domain.quick import quick

Value = int | str | bool
Row = Mapping[str, Value]  # the attributes of a run's row by name; what is not set is not there

OPERATORS = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">=": operator.ge}


@quick
@dataclass(frozen=True)
class Compare:
    """``attribute operator value``; false where the attribute is not set."""

    attribute: str
    operator: str
    value: Value


@quick
@dataclass(frozen=True)
class OneOf:
    """The attribute is one of ``values``."""

    attribute: str
    values: tuple[Value, ...]


@quick
@dataclass(frozen=True)
class Absent:
    """The attribute is not set."""

    attribute: str


@quick
@dataclass(frozen=True)
class AllOf:
    """All parts hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class AnyOf:
    """At least one part holds."""

    parts: tuple[Condition, ...]


Condition = Compare | OneOf | Absent | AllOf | AnyOf


def all_of(*parts: Condition) -> Condition:
    return AllOf(parts)


def any_of(*parts: Condition) -> Condition:
    return AnyOf(parts)


def holds(clause: Condition, row: Row) -> bool:
    """Whether a row meets a clause, by DynamoDB's rules: a comparison with an attribute that is not set is false."""
    match clause:
        case Compare(attribute, symbol, value):
            return attribute in row and _compares(symbol, row[attribute], value)
        case OneOf(attribute, values):
            return attribute in row and row[attribute] in values
        case Absent(attribute):
            return attribute not in row
        case AllOf(parts):
            return all(holds(part, row) for part in parts)
        case AnyOf(parts):
            return any(holds(part, row) for part in parts)


def _compares(symbol: str, present: Any, value: Value) -> bool:
    """Values of different types are neither greater nor smaller."""
    try:
        return bool(OPERATORS[symbol](present, value))
    except TypeError:
        return False
