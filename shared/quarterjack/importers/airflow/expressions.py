"""The value of an expression of a DAG file, without a call of anything that the file names. What is not known stays unknown."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from quarterjack.importers.airflow.values import AirflowTask, AirflowTimetable, ResultOf, Unknown

_MOST = 200  # values of a range
_LONGEST = 1_000  # characters of a text that is made
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mod: operator.mod,
}
_DATETIMES = ("datetime", "pendulum.datetime", "datetime.datetime", "pendulum.DateTime", "dt.datetime", "DateTime")
_DELTAS = ("timedelta", "datetime.timedelta", "dt.timedelta", "duration", "pendulum.duration")
_DAYS = {"years": 365, "months": 30}


def dotted(node: ast.AST) -> str:
    """``a.b.c`` as text; "" for something else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def combined(node: ast.BinOp, left: Any, right: Any) -> Any:
    """The value of an arithmetic expression."""
    unknown = Unknown(ast.unparse(node))
    if isinstance(left, Unknown) and isinstance(right, Unknown):
        return Unknown(f"{left.text}, {right.text}")
    plain = (str, int, float, list, timedelta, datetime)
    if not isinstance(left, plain) or not isinstance(right, (*plain, tuple)):
        return unknown
    if isinstance(node.op, ast.Mult) and isinstance(right, int) and isinstance(left, (int, float, timedelta)):
        function: Callable[[Any, Any], Any] = operator.mul
    elif type(node.op) in _OPERATORS:
        function = _OPERATORS[type(node.op)]
    else:
        return unknown
    try:
        found = function(left, right)
    except (TypeError, ValueError, OverflowError, KeyError, ZeroDivisionError):
        return unknown
    return unknown if isinstance(found, str) and len(found) > _LONGEST else found


def indexed(node: ast.Subscript, value: Any, key: Any) -> Any:
    """``value[key]``."""
    if isinstance(value, AirflowTask):
        value = ResultOf(value)
    if isinstance(value, ResultOf) and isinstance(key, (str, int)):
        return ResultOf(value.task, (*value.path, key))
    try:
        return value[key] if isinstance(value, (list, dict)) else Unknown(ast.unparse(node))
    except (KeyError, IndexError, TypeError):
        return Unknown(ast.unparse(node))


def made(name: str, positional: Sequence[Any], named: Mapping[str, Any]) -> Any:  # noqa: PLR0911 (a table of cases)
    """The value of a call that has no effect: of a time, a length of time, a zone, a range, a dict or a timetable; None: it is another."""
    last = name.rpartition(".")[2]
    try:
        if name in _DATETIMES:
            return _datetime(positional, named)
        if name in _DELTAS:
            days = sum(count * named.get(unit, 0) for unit, count in _DAYS.items())
            rest = {unit: value for unit, value in named.items() if unit not in _DAYS}
            return timedelta(*positional, **rest) + timedelta(days=days)
        if last in ("timezone", "ZoneInfo") and positional:
            return ZoneInfo(str(positional[0]))
        if name == "range":
            found = range(*positional)
            return list(found) if len(found) <= _MOST else Unknown("range")
    except (TypeError, ValueError, KeyError, OverflowError):
        return Unknown(name)
    if name == "dict":
        return dict(named)
    if name in ("list", "tuple", "sorted") and len(positional) == 1 and isinstance(positional[0], list):
        return list(positional[0])
    if last.endswith("Timetable"):
        return AirflowTimetable(last, named, positional)
    return None


def _datetime(positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
    tz = named.get("tz", named.get("tzinfo"))
    rest = {name: value for name, value in named.items() if name not in ("tz", "tzinfo")}
    zone = ZoneInfo(tz) if isinstance(tz, str) else tz if isinstance(tz, ZoneInfo) else ZoneInfo("UTC")
    naive: Any = datetime(*positional, **rest)  # noqa: DTZ001 (its zone follows)
    return naive.replace(tzinfo=zone)
