"""The calendar: the fires of a week or a month by the hour, peaks, quiet times, holidays, and changes of the clocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall
from quarterjack.console.charts.load import short_count
from quarterjack.console.pages.fires.asked import (
    day_of,
    fires_address,
    forecast_conditions,
    in_form,
    midnight,
    part_of,
    tomorrow,
    ways_on,
)
from quarterjack.console.pages.fires.heat import clock_changes, heat_rows, peaks, quiet_times
from quarterjack.console.pages.fires.window import zone_of
from quarterjack.errors import ExpressionError, InvalidInput
from quarterjack.sdk.forecasts.views import Forecast
from quarterjack.timing.holidays import calendar

VIEWS: Mapping[str, tuple[str, int]] = {"week": ("a week", 7), "month": ("a month", 31)}  # what is shown, and its days


def show(call: PageCall) -> Response:
    """The page. What cannot be read in its address is shown with its fault."""
    kept = {name: call.param(name) for name in ("q", "zone", "show", "holidays", "count")}
    values: dict[str, Any] = {"fault": None, "found": None}
    try:
        values |= _calendar(call, kept)
    except InvalidInput as problem:
        values["fault"] = problem
    zone = kept["zone"] if values["fault"] is None and kept["zone"] else "UTC"
    return call.render(
        "fires/calendar.html",
        200 if values["fault"] is None else 422,
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
    """What the page shows. Raises InvalidInput."""
    name = kept["zone"] or "UTC"
    zone, view = zone_of(name), kept["show"] or "week"
    if view not in VIEWS:
        raise InvalidInput("show", view, "is not shown", f"use one of {', '.join(VIEWS)}")
    first, holiday = day_of(call.param("from"), call.now, zone), _holidays(kept["holidays"])
    days = [first + timedelta(days=number) for number in range(VIEWS[view][1])]
    since, until = midnight(first, zone), midnight(days[-1] + timedelta(days=1), zone)
    today = call.now.astimezone(zone).date()
    if until <= call.now:
        raise InvalidInput("from", first, "is past", "choose a later day; the timeline and the runs show what was")
    found = _forecast(call, since, until, name, kept["q"])
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


def _forecast(call: PageCall, since: datetime, until: datetime, zone: str, q: str | None) -> Forecast:
    return call.scheduler.forecast(
        since=since,
        until=until,
        timezone=zone,
        **part_of(call),
        **forecast_conditions(q),
    )


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
