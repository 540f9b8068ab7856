"""Statistics of a tenant's runs, day by day: stored ones of days and hours that are over, and the entries of the latest hours."""

from __future__ import annotations

from collections.abc import Mapping

from minutehand.domain.history.entry import Book
from minutehand.domain.times import HOUR
from minutehand.history.read import Reading
from minutehand.ports.history.pages import Day, ReadMeter
from minutehand.ports.services import Services
from minutehand.state.history.search import Search
from minutehand.state.history.stats import Stats, decode, total


def daily(tenant: str, *, first: int, last: int, services: Services, meter: ReadMeter) -> Mapping[int, Stats]:
    """The statistics of days in ``[first, last]`` (since 1970) that have runs. Raises Unavailable."""
    history = services.history
    days = history.days(tenant, Book.ENDED, first=first, last=last, meter=meter)
    stored = history.stats(tenant, first=first, last=last, hourly=False, meter=meter)
    found = {day: total(map(decode, bodies)) for (day, _), bodies in stored.items()}
    for day in days:
        if day.number not in found:
            found[day.number] = _by_hours(tenant, day, services, meter)
    return found


def _by_hours(tenant: str, day: Day, services: Services, meter: ReadMeter) -> Stats:
    hours = services.history.stats(tenant, first=day.number, last=day.number, hourly=True, meter=meter)
    stats = total(decode(body) for bodies in hours.values() for body in bodies)
    begin = day.number * 24
    first = max(begin, min(day.folded, begin + 24))  # the first hour that is not folded
    if first < begin + 24:
        reading = Reading(
            services.history,
            tenant,
            Book.ENDED,
            Search(),
            after=first * HOUR - 1,
            upto=(begin + 24) * HOUR - 1,
            meter=meter,
        )
        for entry in reading.entries():
            stats.add(entry)
    return stats
