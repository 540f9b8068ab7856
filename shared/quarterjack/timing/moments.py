"""``at(…)`` and ``rate(…)``: a single moment, and a fire every so often."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from quarterjack.timing.cron.fields import FieldToken
from quarterjack.timing.zones.zone import FIRST_SECOND, FOREVER, LAST_SECOND, LAST_YEAR, Gap, Repeated, WallClock, table
from quarterjack.values import value

CENTURY = 100 * 366 * 86400  # seconds; no fire may be further away than that
UNITS = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}
_RATE = re.compile(
    r"\s*rate\(\s*(?P<number>[0-9]+)\s+(?P<unit>[a-z]+)\s*(?:,\s*from\s*=\s*(?P<origin>[^\s)]+)\s*)?\)\s*",
    re.IGNORECASE,
)
_AT = re.compile(r"\s*at\(\s*(?P<moment>[^\s)]+)\s*\)\s*", re.IGNORECASE)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?(?P<offset>Z|[+-]\d\d:\d\d)?", re.ASCII)


@value(slots=True)
class Moment:
    """One second of the wall clock. It is a ``WallClockPattern`` that matches itself."""

    second: int  # what the wall clock shows, counted as if it were UTC
    zone: str | None = None  # its own zone; None: the schedule's

    def match(self, local: int) -> int:
        return self.second if local <= self.second else FOREVER

    def table(self, zone: str, gap: Gap, repeated: Repeated) -> WallClock:
        """The timetable with this moment alone."""
        return WallClock(self, table(self.zone or zone), gap, repeated)

    def instant(self, zone: str, gap: Gap = "next_valid") -> int | None:
        """The instant in UTC milliseconds, the first if the time comes twice; None if it is skipped under ``gap="skip"``."""
        return self.table(zone, gap, "first").next((self.second - 3 * 86400) * 1000)


@value(slots=True)
class Rate:
    """A fire every so often, counted in elapsed time."""

    period: int  # seconds
    origin: Moment | None = None  # the first fire; None: one period after the schedule became active


def parse_rate(expression: str) -> Rate:
    """Parse ``rate(5 minutes)`` or ``rate(5 minutes, from=2026-01-01T00:00:00Z)``."""
    found = _RATE.fullmatch(expression)
    if found is None:
        remedy = "write rate(5 minutes) or rate(5 minutes, from=2026-01-01T00:00:00Z)"
        FieldToken(expression, 0, expression).fail("this rate is not understood", remedy)
    number, unit = (_group(found, name) for name in ("number", "unit"))
    seconds = UNITS.get(unit.text.lower().removesuffix("s"))
    if seconds is None:
        unit.fail(f"{unit.text!r} is not a unit of time", "use seconds, minutes, hours or days")
    period = int(number.text[:12]) * seconds  # twelve digits are more than a century
    if period == 0:
        number.fail("a rate needs a period above zero", "give at least rate(1 second)")
    if period > CENTURY:
        number.fail("the next fire would be more than 100 years away", "give a shorter period")
    return Rate(period, _moment(_group(found, "origin")) if found["origin"] else None)


def parse_at(expression: str) -> Moment:
    """Parse ``at(2026-12-24T18:00:00)``; with ``Z`` or an offset it is absolute."""
    found = _AT.fullmatch(expression)
    if found is None:
        FieldToken(expression, 0, expression).fail("this moment is not understood", "write at(2026-12-24T18:00:00)")
    return _moment(_group(found, "moment"))


def _group(found: re.Match[str], name: str) -> FieldToken:
    return FieldToken(found[name], found.start(name), found.string)


def _moment(token: FieldToken) -> Moment:
    text = token.text.upper()
    found = _MOMENT.fullmatch(text)
    if found is None:
        token.fail(f"{token.text!r} is not a date and time", "write 2026-12-24T18:00:00")
    return moment_of(token, text, "UTC" if found["offset"] else None)


def moment_of(token: FieldToken, text: str, zone: str | None) -> Moment:
    """The moment of an ISO text, whose date or time may not exist. ``token`` is where it stands, for the error."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        token.fail(f"{token.text!r} does not exist ({error})", "give a date and time that the calendar has")
    second = int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp())
    if not FIRST_SECOND <= second <= LAST_SECOND:
        token.fail(f"{token.text!r} is at the end of the calendar", f"give a year up to {LAST_YEAR}")
    return Moment(second, zone)
