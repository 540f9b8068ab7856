"""The part of CloudWatch's metric math that alarms use. What is not known here raises: an alarm is never right by accident.

A series has the values of some periods, the latest last; None: nothing was measured. A function or operator of a None is None, but for
FILL. Numbers are series of one number.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce

Series = Sequence[float | None]

_OPERATORS: Mapping[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.And: lambda a, b: bool(a) and bool(b),
    ast.Or: lambda a, b: bool(a) or bool(b),
}


class UnknownFormulaError(Exception):
    """A formula has what this module does not know."""


def evaluate(formula: str, series: Mapping[str, Series], length: int) -> list[float | None]:
    """The values of a formula over series of this length. Raises UnknownFormulaError."""
    return _value(_parsed(formula), series, length)


@cache
def _parsed(formula: str) -> ast.expr:
    text = re.sub(r"\b(AND|OR)\b", lambda word: word[0].lower(), formula)
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        raise UnknownFormulaError(formula) from None


def _value(node: ast.expr, series: Mapping[str, Series], length: int) -> list[float | None]:
    def of(part: ast.expr) -> list[float | None]:
        return _value(part, series, length)

    match node:
        case ast.Constant(value=int() | float() as number):
            return [float(number)] * length
        case ast.Name(id=name) if name in series:
            return list(series[name])
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
            return _each(_known(op), of(left), of(right))
        case ast.BoolOp(op=op, values=[first, *others]):
            return reduce(lambda found, other: _each(_known(op), found, of(other)), others, of(first))
        case ast.Call(func=ast.Name(id=name), args=arguments) if (name, len(arguments)) in _FUNCTIONS:
            return _FUNCTIONS[name, len(arguments)](*map(of, arguments))
    raise UnknownFormulaError(ast.unparse(node))


def _known(op: ast.AST) -> Callable[[float, float], float]:
    if type(op) not in _OPERATORS:
        raise UnknownFormulaError(type(op).__name__)
    return _OPERATORS[type(op)]


def _fill(series: Series, filler: Series) -> list[float | None]:
    return [by if value is None else value for value, by in zip(series, filler, strict=True)]


def _if(condition: Series, then: Series, other: Series) -> list[float | None]:
    return [
        None if asked is None else yes if asked else no for asked, yes, no in zip(condition, then, other, strict=True)
    ]


def _diff(series: Series) -> list[float | None]:
    return [None, *_each(operator.sub, series[1:], series[:-1])]


_FUNCTIONS: Mapping[tuple[str, int], Callable[..., list[float | None]]] = {
    ("FILL", 2): _fill,
    ("IF", 3): _if,
    ("DIFF", 1): _diff,
}


def _each(function: Callable[[float, float], float], a: Series, b: Series) -> list[float | None]:
    return [
        None if one is None or other is None else _number(function, one, other) for one, other in zip(a, b, strict=True)
    ]


def _number(function: Callable[[float, float], float], one: float, other: float) -> float | None:
    try:
        return float(function(one, other))
    except ZeroDivisionError:  # CloudWatch has no value there
        return None
