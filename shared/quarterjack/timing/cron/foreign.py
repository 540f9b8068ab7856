"""Expressions of other systems that are no cron expression here: each is refused with the form that says the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NoReturn

from quarterjack.errors import ExpressionError
from quarterjack.timing.cron.fields import WEEKDAY, FieldToken
from quarterjack.timing.zones import zone as zones

_PREFIX = re.compile(r"\s*(?:CRON_)?TZ=(\S+)\s+(.*\S)\s*", re.IGNORECASE | re.DOTALL)
_EVERY = re.compile(r"\s*@every\s+(\S+)\s*", re.IGNORECASE)
_LENGTH = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.IGNORECASE)
_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_DAY = re.compile(r"(?<![#/\w])[1-7]\b")  # a weekday by its number: not the 1 of MON#1
_LAST = re.compile(r"L([0-7]|[A-Z]{3})")


def refuse_zone_or_length(expression: str) -> None:
    """Refuse a zone before or behind the fields, and ``@every`` with a length of time. Raises ExpressionError."""
    whole = FieldToken(expression, 0, expression)
    if found := _PREFIX.fullmatch(expression):
        _refuse_zone(whole, found[1], found[2])
    *rest, last = expression.split() or [""]
    if len(rest) in (5, 6) and last in zones.names():
        _refuse_zone(whole, last, " ".join(rest))
    if every := _EVERY.fullmatch(expression):
        rate = _rate(every[1])
        whole.fail(
            f"{expression.strip()!r} is no cron expression", f"write {rate}" if rate else "write rate(90 seconds)"
        )


def _refuse_zone(whole: FieldToken, zone: str, fields: str) -> NoReturn:
    whole.fail("an expression has no time zone in it", f"give the expression {fields!r} and timezone={zone!r}")


def _rate(length: str) -> str | None:
    """Go's length of time as a rate; None: it is not a whole number of seconds."""
    found = _LENGTH.fullmatch(length)
    seconds = (
        sum(int(part or 0) * size for part, size in zip(found.groups(), (3_600, 60, 1), strict=True)) if found else 0
    )
    if not seconds:
        return None
    size, unit = next(one for one in _UNITS if seconds % one[0] == 0)
    return f"rate({seconds // size} {unit}{'s' if seconds > size else ''})"


def refuse_seven(tokens: Sequence[FieldToken], reads: Callable[[str], object]) -> NoReturn:
    """Refuse seven fields, as Quartz has them, with what says the same if ``reads`` accepts it."""
    second, minute, hour, day, month, weekday, year = (token.text for token in tokens)
    whole = FieldToken(tokens[0].expression, 0, tokens[0].expression)
    problem = "a cron expression has 5 fields, or 6 with seconds first, not 7"
    if second != "0" and year == "*":
        whole.fail(problem, f"leave out the year: '{second} {minute} {hour} {day} {month} {weekday}'")
    if second != "0":
        whole.fail(problem, "leave out the year, and give start= and end= for it")
    if day != "?" and weekday != "?":
        day, weekday = (day, "?") if weekday == "*" else ("?" if day == "*" else day, weekday)
    written = f"cron({minute} {hour} {day} {month} {weekday} {year})"
    try:
        reads(written)
    except ExpressionError as error:
        whole.fail(f"{problem}; and {error.problem}", "write cron(minute hour day-of-month month day-of-week year)")
    whole.fail(problem, f"in the AWS dialect, whose numbers of weekdays are Quartz's, write {written}")


def refuse_numbered_weekday(day: FieldToken, weekday: FieldToken) -> None:
    """Refuse a weekday by its number beside ``?`` and seconds, as Quartz writes it: there 1 is Sunday, here Monday."""
    if day.text != "?" or not _DAY.search(weekday.text):
        return
    there, here = (_named(weekday.text, first) for first in (1, 0))
    problem = f"day-of-week {weekday.text!r} beside '?' may count as Quartz does, where 1 is Sunday"
    weekday.fail(problem, f"write {there} if it is Quartz's, else {here}")


def _named(text: str, first: int) -> str:
    return _DAY.sub(lambda number: WEEKDAY.names[(int(number[0]) - first) % 7], text)


def refuse_weekday(item: FieldToken) -> None:
    """Refuse ``7/2`` and ``L5``, which are read in different ways or not at all."""
    if item.text.startswith("7/") and item.text != "7/7":
        step = item.text[2:]
        remedy = f"write 0/{step} to count from Sunday on, or 7 for Sunday alone"
        item.fail(f"day-of-week {item.text!r} is Sunday alone for some readers of cron", remedy)
    if found := _LAST.fullmatch(item.text):
        item.fail(f"day-of-week {item.text!r} is not understood", f"did you mean {found[1]}L?")
