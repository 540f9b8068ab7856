"""The spans of a forecast: minutes, hours or days by the clock of a zone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from quarterjack.domain.times import SECOND
from quarterjack.errors import InvalidInput
from quarterjack.timing.zones.zone import ZoneRules

LENGTHS = {"minute": 60, "hour": 3_600, "day": 86_400}  # seconds
MOST = {"minute": 1_500, "hour": 1_500, "day": 400}  # spans: 25 hours, 62 days, 400 days


def edges_of(since: int, until: int, by: str, zone: ZoneRules) -> Sequence[int]:
    """The beginnings of the spans from ``since`` to ``until`` (UTC ms), and ``until``.

    An hour that the clocks repeat is two spans, one that they skip is none.
    """
    most = MOST[by]
    if (until - since) // SECOND > most * LENGTHS[by]:
        more = {"minute": "by='hour'", "hour": "by='day'", "day": "several forecasts"}[by]
        raise InvalidInput("by", by, f"divides this time into more than {most} spans", f"ask for less time, or {more}")
    starts = _days(since, zone) if by == "day" else _clock(since, LENGTHS[by], zone)
    return [since, *takewhile(lambda start: start < until, starts), until]


def _days(since: int, zone: ZoneRules) -> Iterator[int]:
    """The days that begin after ``since``."""
    last, day = since, zone.local(since // SECOND) // 86_400
    while True:
        day += 1
        start = zone.reaches(day * 86_400) * SECOND
        if start > last:  # a day that the zone leaves out begins with the one after it
            yield start
            last = start


def _clock(since: int, length: int, zone: ZoneRules) -> Iterator[int]:
    """The hours or minutes that begin after ``since``, and the changes of the clocks."""
    second = since // SECOND
    while True:
        coming = second + length - zone.local(second) % length
        changes = zone.changes(second, coming)
        second = changes[0][0] if changes else coming
        yield second * SECOND
