"""The calendar: the fires of a week or a month as a heat map by the hour, with peaks, quiet times, holidays and clock changes.

The heat map has a row for each day, and a cell for each hour of its clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, get
from quarterjack.console.count_charts import short_count
from quarterjack.console.forms import in_form, zone_of
from quarterjack.console.pages.fires.firing import (
    day_of,
    fires_address,
    forecast_conditions,
    midnight,
    part_of,
    tomorrow,
    ways_on,
)
from quarterjack.errors import ExpressionError, InvalidInput
from quarterjack.timing.holidays import calendar
from quarterjack.timing.zones.zone import table

VIEWS: Mapping[str, tuple[str, int]] = {"week": ("a week", 7), "month": ("a month", 31)}  # what is shown, and its days
_HOUR = timedelta(hours=1)
_LEVELS = 5  # shades of a cell that has fires
_LISTED = 5  # peaks, and quiet times


def show(call: PageCall) -> Response:
    """The page. An invalid part of its address is shown with its fault."""
    kept = {name: call.param(name) for name in ("q", "zone", "show", "holidays", "count")}
    values: dict[str, Any] = {"fault": None, "found": None}
    try:
        values |= _calendar(call, kept)
    except InvalidInput as problem:
        values["fault"] = problem
    zone = kept["zone"] if values["fault"] is None and kept["zone"] else "UTC"
    return call.render(
        "fires/calendar.html",
        short_count=short_count,
        kept=kept,
        views=VIEWS,
        zone=zone,
        from_day=call.param("from") or "",
        now=call.now.astimezone(zone_of(zone)),
        maintenance=[in_form(tomorrow(call.now, zone_of(zone), hour)) for hour in (2, 4)],
        fires_in=lambda one: fires_address(
            call, {word: kept[word] for word in ("q", "zone", "count")}, one.start, one.end
        ),
        **values,
    )


def _calendar(call: PageCall, kept: Mapping[str, str | None]) -> dict[str, Any]:
    """The values of the page. Raises InvalidInput."""
    name = kept["zone"] or "UTC"
    zone, view = zone_of(name), kept["show"] or "week"
    if view not in VIEWS:
        raise InvalidInput("show", view, "is not shown", f"use one of {', '.join(VIEWS)}")
    first, holiday = day_of(call.param("from"), call.now, zone), _holidays(kept["holidays"])
    days = [first + timedelta(days=number) for number in range(VIEWS[view][1])]
    since, until = midnight(first, zone), midnight(days[-1] + timedelta(days=1), zone)
    today = call.now.astimezone(zone).date()
    if until <= call.now:
        raise InvalidInput("from", first, "is past", "choose a later day; the timeline and the runs show the past")
    conditions = forecast_conditions(kept["q"])
    found = call.scheduler.forecast(since=since, until=until, timezone=name, **part_of(call), **conditions)
    changes = clock_changes(name, found.since, until)
    quiet = quiet_times(found.spans)
    return {
        "found": found,
        "view": view,
        "rows": heat_rows(found.spans, days, holiday, changes),
        "first": first,
        "last": days[-1],
        "peaks": peaks(found.spans),
        "quiet": quiet,
        "calm": max(quiet, key=lambda one: one.length, default=None),
        "changes": changes,
        "zones": sorted({"UTC", name, *(one.timezone for one in found.schedules)}),
        "earlier": _moved(call, kept, max(first - timedelta(days=len(days)), today), today) if first > today else None,
        "later": _moved(call, kept, days[-1] + timedelta(days=1), today),
        **ways_on(call, found, "calendar", **{**kept, "from": first}),
    }


def _moved(call: PageCall, kept: Mapping[str, str | None], first: date, today: date) -> str:
    return call.address("calendar", **{**kept, "from": None if first == today else first})


def _holidays(name: str | None) -> Callable[[date], str | None]:
    """The name of a day's holiday. Raises InvalidInput."""
    if name is None:
        return lambda _: None
    try:
        known = calendar(name)
    except ExpressionError as problem:
        raise InvalidInput("holidays", name, problem.problem, problem.remedy) from None
    return lambda day: known.name(day) if known.holiday(day) else None


@dataclass(frozen=True)
class HeatCell:
    """An hour of a day: two spans if the clocks repeat it."""

    start: datetime
    end: datetime
    fires: int
    level: int  # 0: none; up to _LEVELS


@dataclass(frozen=True)
class HeatRow:
    """A day."""

    day: date
    cells: Sequence[HeatCell | None]  # by hour; None: past, or no such hour on that day
    fires: int
    is_weekend: bool
    remarks: Sequence[str]  # a holiday's name, a change of the clocks


@dataclass(frozen=True)
class Stretch:
    """Hours in a row with equally few fires."""

    start: datetime
    end: datetime
    fires: int  # of each hour

    @property
    def length(self) -> timedelta:
        """The elapsed time."""
        return self.end.astimezone(UTC) - self.start.astimezone(UTC)


@dataclass(frozen=True)
class ClockChange:
    """A change of the clocks."""

    at: datetime
    note: str


def heat_rows(
    spans: Sequence[Any],
    days: Sequence[date],
    holiday: Callable[[date], str | None],
    changes: Sequence[ClockChange],
) -> Sequence[HeatRow]:
    """The rows of some days."""
    by_hour: dict[tuple[date, int], list[Any]] = {}
    for span in spans:
        by_hour.setdefault((span.start.date(), span.start.hour), []).append(span)
    cells = _cells(by_hour)
    return [_row(day, cells, holiday(day), changes) for day in days]


def _row(
    day: date, cells: Mapping[tuple[date, int], HeatCell], holiday: str | None, changes: Sequence[ClockChange]
) -> HeatRow:
    row = [cells.get((day, hour)) for hour in range(24)]
    said = [*([holiday] if holiday else []), *(one.note for one in changes if one.at.date() == day)]
    total = sum(cell.fires for cell in row if cell is not None)
    return HeatRow(day, row, total, is_weekend=day.weekday() >= 5, remarks=said)


def _cells(by_hour: Mapping[tuple[date, int], Sequence[Any]]) -> Mapping[tuple[date, int], HeatCell]:
    counts = {key: sum(span.fires for span in spans) for key, spans in by_hour.items()}
    busy = [count for count in counts.values() if count]
    least, most = min(busy, default=0), max(busy, default=0)
    return {
        key: HeatCell(spans[0].start, spans[-1].end, counts[key], _level(counts[key], least, most))
        for key, spans in by_hour.items()
    }


def _level(fires: int, least: int, most: int) -> int:
    """The shade of a count between the least and the most of the hours with fires. The square root keeps small counts apart."""
    if not fires or least == most:
        return min(fires, 1)
    return 1 + round((_LEVELS - 1) * math.sqrt((fires - least) / (most - least)))


def peaks(spans: Sequence[Any]) -> Sequence[Any]:
    """The spans with the most fires, the fullest first."""
    busy = [span for span in spans if span.fires]
    return sorted(busy, key=lambda span: (-span.fires, span.start.astimezone(UTC)))[:_LISTED]


def quiet_times(spans: Sequence[Any]) -> Sequence[Stretch]:
    """The longest stretches with the fewest fires of all, in order of time."""
    whole = [
        span for span in spans if span.end - span.start >= _HOUR
    ]  # a part of an hour has fewer fires than its hour
    spans = whole or spans
    least = min((span.fires for span in spans), default=0)
    found = [
        Stretch(some[0].start, some[-1].end, least)
        for is_least, group in groupby(spans, key=lambda span: span.fires == least)
        if is_least and (some := list(group))
    ]
    longest = sorted(found, key=lambda one: one.length, reverse=True)[:_LISTED]
    return sorted(longest, key=lambda one: one.start.astimezone(UTC))


def clock_changes(zone_name: str, since: datetime, until: datetime) -> Sequence[ClockChange]:
    """The changes of a zone's clocks in some time."""
    first, last = int(since.timestamp()), int(until.timestamp())
    return [
        ClockChange(
            datetime.fromtimestamp(instant, UTC).astimezone(since.tzinfo),
            f"clocks go {'forward' if after > before else 'back'} from {_clock(instant + before)} to {_clock(instant + after)}",
        )
        for instant, before, after in table(zone_name).changes(first - 1, last)
    ]


def _clock(local: int) -> str:
    return f"{datetime.fromtimestamp(local, UTC):%H:%M}"


ROUTES = (get("/calendar", show),)
