"""``rate(…)`` and ``at(…)``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from minutehand.timing import moments
from minutehand.timing.cron.fields import FieldToken
from minutehand.timing.moments import Moment

CENTURY = 100 * 366 * 86400  # seconds; nothing may be due later than that from now
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_RATE = re.compile(
    r"\s*rate\(\s*(?P<number>[0-9]+)\s+(?P<unit>[a-z]+)\s*(?:,\s*from\s*=\s*(?P<origin>[^\s)]+)\s*)?\)\s*",
    re.IGNORECASE,
)
_AT = re.compile(r"\s*at\(\s*(?P<moment>[^\s)]+)\s*\)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rate:
    """A fire every so often, counted in elapsed time."""

    period: int  # seconds
    origin: Moment | None = None  # the first fire; None: one period after the schedule became active


def rate(expression: str) -> Rate:
    """Parse ``rate(5 minutes)`` or ``rate(5 minutes, from=2026-01-01T00:00:00Z)``."""
    found = _RATE.fullmatch(expression)
    if found is None:
        remedy = "write rate(5 minutes) or rate(5 minutes, from=2026-01-01T00:00:00Z)"
        FieldToken(expression, 0, expression).fail("this rate is not understood", remedy)
    number, unit = (FieldToken(found[name], found.start(name), expression) for name in ("number", "unit"))
    seconds = _UNITS.get(unit.text.lower().removesuffix("s"))
    if seconds is None:
        unit.fail(f"{unit.text!r} is not a unit of time", "use seconds, minutes, hours or days")
    period = int(number.text[:12]) * seconds  # twelve digits are beyond the century already
    if period == 0:
        number.fail("a rate needs a period above zero", "give at least rate(1 second)")
    if period > CENTURY:
        number.fail("the next fire would be more than 100 years away", "give a shorter period")
    origin = moments.parse(FieldToken(found["origin"], found.start("origin"), expression)) if found["origin"] else None
    return Rate(period, origin)


def at(expression: str) -> Moment:
    """Parse ``at(2026-12-24T18:00:00)``."""
    found = _AT.fullmatch(expression)
    if found is None:
        FieldToken(expression, 0, expression).fail("this moment is not understood", "write at(2026-12-24T18:00:00)")
    return moments.parse(FieldToken(found["moment"], found.start("moment"), expression))
