"""Statistics of a tenant's runs, day by day: stored ones of days and hours that are over, and the entries of the latest hours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from quarterjack.domain.history.dead_run import parse_dead_key
from quarterjack.domain.history.entry import Book
from quarterjack.domain.times import HOUR
from quarterjack.history.read import PageBudget, Reading
from quarterjack.ports.services import Services
from quarterjack.state.history.search import Search
from quarterjack.state.history.stats import Stats, decode, total
from quarterjack.stores.history.pages import Day, ReadMeter
from quarterjack.stores.paging import ReadBudget

_UNITS, _ROWS = 50.0, 250  # read units of the list of dead runs, and its lines in one request


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


@dataclass(frozen=True, kw_only=True)
class CountedHours:
    """Ended runs of the latest hours."""

    hours: Mapping[int, Mapping[str, int]]  # by hour since 1970: runs by state
    recent: Mapping[str, int]  # those that ended within the last hour, likewise
    recent_is_whole: bool  # False: there were more of these than were read
    partial: frozenset[int]  # hours of which not all entries were read
    failed_since: int  # UTC ms: runs that failed for good after it are all counted, by their own list


def hourly(
    tenant: str, *, now: int, hours: int, services: Services, meter: ReadMeter, budget: PageBudget
) -> CountedHours:
    """What became of the runs of the last ``hours``, the present one included. Raises Unavailable.

    Folded hours cost next to nothing, whatever ran. Of the others, a few, the entries are read, the latest first, until the ``budget`` is
    over. Runs that failed for good are counted by the list of dead runs, too, which is not behind, for the last 60 minutes and for every
    hour that was not read to its end.
    """
    last, history = now // HOUR, services.history
    first = last - hours + 1
    days = history.days(tenant, Book.ENDED, first=first // 24, last=last // 24, meter=meter)
    counted = {hour: dict(found) for hour, found in history.totals(tenant, first=first, last=last, meter=meter).items()}
    unread = frozenset(hour for hour in range(first, last + 1) if not _is_counted(hour, days, counted))
    begin = min([*(hour * HOUR for hour in unread), now - HOUR + 1])
    recent = dict[str, int]()
    reading = Reading(
        history, tenant, Book.ENDED, Search(), after=begin - 1, upto=now, meter=meter, is_over=budget.is_over
    )
    for entry in reading.entries():
        state, count = str(entry.state), entry.skipped or 1
        if entry.at > now - HOUR:
            recent[state] = recent.get(state, 0) + count
        if entry.at // HOUR in unread:
            of_hour = counted.setdefault(entry.at // HOUR, {})
            of_hour[state] = of_hour.get(state, 0) + count
    partial = frozenset(hour for hour in unread if hour * HOUR < reading.searched)
    listed = _list_failed(tenant, min([now - HOUR, *(hour * HOUR - 1 for hour in partial)]), now, services)
    for hour in partial | {last, last - 1}:
        _take_larger(counted.setdefault(hour, {}), (state for at, state in listed.failed if at // HOUR == hour))
    _take_larger(recent, (state for at, state in listed.failed if at > now - HOUR))
    return CountedHours(
        hours={hour: found for hour, found in counted.items() if hour >= first},
        recent=recent,
        recent_is_whole=reading.searched <= now - HOUR,
        partial=partial,
        failed_since=listed.since,
    )


@dataclass(frozen=True)
class _Failed:
    """Lines of the list of dead runs, repeated ones included."""

    failed: Sequence[tuple[int, str]]  # end in UTC ms, and state
    since: int  # UTC ms: all that failed later are here


def _list_failed(tenant: str, after: int, now: int, services: Services) -> _Failed:
    """The runs that failed for good after a time, the latest first, until so much was read."""
    failed, budget = list[tuple[int, str]](), ReadBudget(_UNITS)
    pages = services.dead_index.pages(
        tenant, after=after, upto=now, only=None, before=None, rows=_ROWS, on_read=budget.spend
    )
    for lines, reached in pages:
        failed += ((dead.ended_at, str(dead.state)) for dead in lines)
        if budget.is_over:
            return _Failed(failed, max(parse_dead_key(reached)[0], after))
    return _Failed(failed, after)


def _take_larger(counts: dict[str, int], states: Iterable[str]) -> None:
    """What was dismissed has left the list, and what has just failed is not in the history yet: the larger count of each state is right."""
    for state, count in Counter(states).items():
        counts[state] = max(counts.get(state, 0), count)


def _is_counted(hour: int, days: Sequence[Day], counted: Mapping[int, Mapping[str, int]]) -> bool:
    """Whether an hour need not be read: its totals are stored, or it is folded and has none, or its day has no runs at all."""
    day = next((day for day in days if day.number == hour // 24), None)
    return hour in counted or day is None or hour < day.folded
