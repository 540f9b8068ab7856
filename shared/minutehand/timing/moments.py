"""Single moments: ``2026-12-24T18:00:00``, on the wall clock of a zone or absolute."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from minutehand.timing.cron.fields import FieldToken
from minutehand.timing.zones.wall_clock import Gap, Repeated, WallClock
from minutehand.timing.zones.zone import FIRST_SECOND, FOREVER, LAST_SECOND, LAST_YEAR, table

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?(?P<offset>Z|[+-]\d\d:\d\d)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time of the wall clock, once. As a ``wall.Pattern`` it matches itself."""

    second: int  # what the wall clock shows, counted as if it were UTC
    zone: str | None = None  # its own zone; None: the schedule's

    def match(self, local: int) -> int:
        """See ``wall.Pattern``."""
        return self.second if local <= self.second else FOREVER

    def table(self, zone: str, gap: Gap, repeated: Repeated) -> WallClock:
        """The timetable with this moment alone."""
        return WallClock(self, table(self.zone or zone), gap, repeated)

    def instant(self, zone: str, gap: Gap = "next_valid") -> int | None:
        """When it is, in UTC milliseconds: the first time if it comes twice; None if it is skipped under ``gap="skip"``."""
        return self.table(zone, gap, "first").next((self.second - 3 * 86400) * 1000)


def parse(token: FieldToken) -> Moment:
    """Parse ``2026-12-24T18:00:00``; with ``Z`` or an offset it is absolute."""
    found = _MOMENT.fullmatch(token.text.upper())
    if found is None:
        token.fail(f"{token.text!r} is not a date and time", "write 2026-12-24T18:00:00")
    return of(token, token.text.upper(), absolute=found["offset"] is not None)


def of(token: FieldToken, text: str, *, absolute: bool) -> Moment:
    """The moment of an ISO text that may still name a day or hour that does not exist."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        token.fail(f"{token.text!r} does not exist ({error})", "give a date and time that the calendar has")
    second = int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp())
    if not FIRST_SECOND <= second <= LAST_SECOND:
        token.fail(f"{token.text!r} is at the end of the calendar", f"give a year up to {LAST_YEAR}")
    return Moment(second, "UTC" if absolute else None)
