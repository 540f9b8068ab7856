"""``rate(…)`` and ``at(…)``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from minutehand.schedule.fields import Token
from minutehand.schedule.zones import FOREVER

LONGEST = 100 * 366 * 86400  # seconds; nothing may be due later than that from now
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_RATE = re.compile(r"\s*rate\(\s*(?P<number>[0-9]+)\s+(?P<unit>[a-z]+?)s?\s*(?:,\s*from\s*=\s*(?P<origin>[^\s)]+)\s*)?\)\s*", re.IGNORECASE)
_AT = re.compile(r"\s*at\(\s*(?P<moment>[^\s)]+)\s*\)\s*", re.IGNORECASE)
_MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d))?(?P<zone>Z|[+-]\d\d:\d\d)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rate:
    """A period and perhaps an origin, both in seconds."""

    period: int
    origin: Moment | None


@dataclass(frozen=True, slots=True)
class Moment:
    """A wall-clock time in the schedule's zone, or an instant if it named its offset itself."""

    second: int  # as if the wall clock were UTC; the UTC second if absolute
    absolute: bool

    def match(self, local: int) -> int:
        """See ``wall.Pattern``."""
        return self.second if local <= self.second else FOREVER


def rate(expression: str) -> Rate:
    """Parse ``rate(5 minutes)`` or ``rate(5 minutes, from=2026-01-01T00:00:00Z)``."""
    whole = Token(expression, 0, expression)
    found = _RATE.fullmatch(expression)
    if found is None:
        whole.fail("this rate is not understood", "write rate(5 minutes) or rate(5 minutes, from=2026-01-01T00:00:00Z)")
    at = Token(found["number"], found.start("number"), expression)
    unit = _UNITS.get(found["unit"].lower())
    if unit is None:
        Token("", found.start("unit"), expression).fail(f"{found['unit']!r} is not a unit of time", "use seconds, minutes, hours or days")
    period = int(found["number"][:12]) * unit
    if period == 0:
        at.fail("a rate of nothing", "give at least rate(1 second)")
    if period > LONGEST:
        at.fail("the next fire would be more than 100 years away", "give a shorter period")
    origin = moment(Token(found["origin"], found.start("origin"), expression)) if found["origin"] else None
    return Rate(period, origin)


def at(expression: str) -> Moment:
    """Parse ``at(2026-12-24T18:00:00)``."""
    found = _AT.fullmatch(expression)
    if found is None:
        Token(expression, 0, expression).fail("this moment is not understood", "write at(2026-12-24T18:00:00)")
    return moment(Token(found["moment"], found.start("moment"), expression))


def moment(token: Token) -> Moment:
    """Parse ``2026-12-24T18:00:00``, perhaps with ``Z`` or an offset."""
    if not _MOMENT.fullmatch(token.text.upper()):
        token.fail(f"{token.text!r} is not a date and time", "write 2026-12-24T18:00:00")
    try:
        parsed = datetime.fromisoformat(token.text.upper())
    except ValueError as error:
        token.fail(f"{token.text!r} does not exist: {error}", "give a date and time that the calendar has")
    absolute = parsed.tzinfo is not None
    return Moment(int((parsed if absolute else parsed.replace(tzinfo=UTC)).timestamp()), absolute)
