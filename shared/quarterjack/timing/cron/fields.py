"""One field of a cron expression: from text to a set of values. Every error has its position in the expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from quarterjack.errors import ExpressionError
from quarterjack.timing.cron.pattern import bits, union
from quarterjack.values import value

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_ITEM = re.compile(
    r"(?:(?P<star>[*?])|(?P<hash>H)(?:\((?P<from>\w+)-(?P<to>\w+)\))?|(?P<low>\w+)(?:-(?P<high>\w+))?)"
    r"(?:/(?P<step>\w+))?",
    re.ASCII,
)
_NUMBER = re.compile("[0-9]{1,4}")

HashValue = Callable[[str, int], int]
"""What H stands for: ``hash_value(field, n)`` is a number below ``n``, always the same for a schedule."""


@value(slots=True)
class FieldSpec:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()  # of the values from ``low`` on
    spread: int = 0  # the highest value that H picks; 0: ``high``

    @property
    def every(self) -> int:
        return bits(self.low, self.high)


SECOND = FieldSpec("second", 0, 59)
MINUTE = FieldSpec("minute", 0, 59)
HOUR = FieldSpec("hour", 0, 23)
DAY = FieldSpec("day-of-month", 1, 31, spread=28)  # H keeps to days that every month has
MONTH = FieldSpec("month", 1, 12, _MONTHS)
WEEKDAY = FieldSpec("day-of-week", 0, 6, _DAYS)
AWS_WEEKDAY = FieldSpec("day-of-week", 1, 7, _DAYS)
YEAR = FieldSpec("year", 1970, 2199)


@value(slots=True)
class FieldToken:
    """A piece of an expression and where it stands."""

    text: str
    position: int
    expression: str  # the whole, for the error

    def fail(self, problem: str, remedy: str) -> NoReturn:
        raise ExpressionError("expression", self.expression, problem, remedy, position=self.position)

    def split(self, separator: str) -> list[FieldToken]:
        parts, position = [], self.position
        for text in self.text.split(separator):
            parts.append(FieldToken(text, position, self.expression))
            position += len(text) + len(separator)
        return parts


@contextmanager
def about(name: str) -> Iterator[None]:
    """Errors from within are about the argument ``name``."""
    try:
        yield
    except ExpressionError as error:
        raise error.about(name) from None


def values(token: FieldToken, spec: FieldSpec, hash_value: HashValue) -> int:
    """The values of a whole field: a comma-separated list of items."""
    return union(item(part, spec, hash_value) for part in token.split(","))


def item(token: FieldToken, spec: FieldSpec, hash_value: HashValue) -> int:
    """The values of one item: ``*``, ``7``, ``1-5``, ``H``, ``H(0-29)``, each perhaps with ``/step``."""
    found = _ITEM.fullmatch(token.text)
    if found is None:
        token.fail(f"{spec.name} {token.text!r} is not understood", _shape(spec))
    if found["star"] == "?" and spec.name not in (DAY.name, WEEKDAY.name):
        token.fail(f"'?' in the field {spec.name}", "'?' stands for no particular day; write '*'")
    low, high = _range(token, spec, found)
    width = high - low + 1
    step = _step(token, spec, found["step"], width)
    if found["hash"]:
        low += hash_value(spec.name, min(step, width) or width)
        return bits(low, high, step) if step else 1 << low
    return bits(low, high, step or 1)


def number(token: FieldToken, spec: FieldSpec, text: str) -> int:
    """One value by number or name."""
    if text in spec.names:
        return spec.low + spec.names.index(text)
    if not _NUMBER.fullmatch(text):
        whole = "" if text == token.text else f" in {token.text!r}"
        token.fail(f"{spec.name} {text!r}{whole} is not understood", _shape(spec))
    value = int(text)
    if spec is WEEKDAY and value == 7:
        return 7  # Sunday at the end of a range; the caller maps it to 0
    if not spec.low <= value <= spec.high:
        after = spec.low == 0 and value == spec.high + 1  # 24 is midnight: the first of the next day
        nearest = 0 if after else min(max(value, spec.low), spec.high)
        token.fail(f"{spec.name} {value} is outside {spec.low}-{spec.high}", f"did you mean {nearest}?")
    return value


def _range(token: FieldToken, spec: FieldSpec, found: re.Match[str]) -> tuple[int, int]:
    if found["star"] or (found["hash"] and not found["from"]):
        return spec.low, spec.spread if found["hash"] and spec.spread else spec.high
    low = number(token, spec, found["low"] or found["from"])
    last = found["high"] or found["to"]
    if last is None:
        return (low % 7 if spec is WEEKDAY else low, spec.high) if found["step"] else (low, low)
    high = number(token, spec, last)
    if spec is WEEKDAY and high == 0 and low > 0:
        high = 7  # FRI-SUN: the Sunday after Friday
    if low > high:
        token.fail(f"{spec.name} range {token.text} runs backwards", f"split it: {low}-{spec.high},{spec.low}-{high}")
    return low, high


def _step(token: FieldToken, spec: FieldSpec, text: str | None, width: int) -> int:
    """The step, 0 if there is none."""
    if text is None:
        return 0
    if not _NUMBER.fullmatch(text) or int(text) == 0:
        token.fail(f"step {text!r} in {spec.name} is not a number above zero", f"give a step from 1 to {width}")
    step = int(text)
    if step > spec.high - spec.low + 1:
        unit = spec.name if spec in (SECOND, MINUTE, HOUR) else "day"
        token.fail(
            f"step {step} is longer than the field {spec.name}", f"for every {step} {unit}s write rate({step} {unit}s)"
        )
    return step


def _shape(spec: FieldSpec) -> str:
    names = f" or {spec.names[0]}-{spec.names[-1]}" if spec.names else ""
    return f"give {spec.low}-{spec.high}{names}, a list 1,2, a range 1-5 or a step */2"
