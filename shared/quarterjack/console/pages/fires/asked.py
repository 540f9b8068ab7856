"""What the addresses of forecasts ask for: a zone, days, moments, and a search over schedules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

from quarterjack.console.calls import PageCall
from quarterjack.console.pages.schedules.search import conditions
from quarterjack.errors import InvalidInput
from quarterjack.sdk.forecasts.forecast import MOST_SCHEDULES
from quarterjack.sdk.forecasts.views import Forecast
from quarterjack.web.urls import cursor_in_url, cursor_of_url

LOOKED_AT = 1_500  # schedules of a page, unless all are asked for: fewer than 250 read units
_FIRST, _LAST = date(1971, 1, 1), date(9000, 1, 1)


def forecast_conditions(text: str | None) -> dict[str, Any]:
    """The conditions of a search, as keywords of ``forecast``. Raises InvalidInput."""
    found = conditions(text)
    if "state" in found:
        remedy = "leave it out: active schedules are counted, and paused ones from the end of their pause on"
        raise InvalidInput("q", text, "says a state, by which nothing is forecast", remedy)
    return found


def part_of(call: PageCall) -> dict[str, Any]:
    """How many schedules are looked at, and behind which, as keywords of ``forecast``. Raises InvalidInput."""
    counted = call.param("count")
    if counted not in (None, "all"):
        raise InvalidInput("count", counted, "is not a part of the schedules", "use all, or leave it out")
    return {
        "limit": LOOKED_AT if counted is None else MOST_SCHEDULES,
        "cursor": cursor_of_url(call.param("cursor")),
    }


def ways_on(call: PageCall, found: Forecast, *segments: str, **kept: object) -> dict[str, Any]:
    """What a page says about the schedules that it has not looked at: addresses of the next ones, and of all at once."""
    more = None if found.cursor is None else call.address(*segments, **{**kept, "cursor": cursor_in_url(found.cursor)})
    whole = call.address(*segments, **{**kept, "count": "all"})
    is_part = call.param("count") is None and (more or call.param("cursor"))
    return {"more": more, "whole": whole if is_part else None, "goes_on": call.param("cursor") is not None}


def day_of(text: str | None, now: datetime, zone: tzinfo) -> date:
    """The first day of a calendar: today, unless another is asked for. Raises InvalidInput."""
    if text is None:
        return now.astimezone(zone).date()
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.min
    if not _FIRST <= day <= _LAST:
        raise InvalidInput("from", text, "is not a day of a calendar", "use a day like 2026-05-04")
    return day


def midnight(day: date, zone: tzinfo) -> datetime:
    """The beginning of a day by the clock of a zone."""
    return datetime.combine(day, time(), zone)


def moment_of(call: PageCall, field: str, zone: tzinfo) -> datetime | None:
    """A time as an address says it; without a zone it is in this one. Raises InvalidInput."""
    text = call.param(field)
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or not _FIRST <= found.date() <= _LAST:
        raise InvalidInput(field, text, "is not a time of a forecast", "use a time like 2026-05-04T08:00")
    return found.astimezone(zone) if found.tzinfo else found.replace(tzinfo=zone)


def in_address(at: datetime) -> str:
    """An instant as an address says it: in UTC, so that an hour that comes twice is told."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def in_form(at: datetime) -> str:
    """A time as a field of a form has it, in the form's zone."""
    return at.strftime("%Y-%m-%dT%H:%M")


def fires_address(call: PageCall, kept: Mapping[str, Any], start: datetime, end: datetime) -> str:
    """The address of the schedules that fire in a time."""
    return call.address("calendar", "fires", **{**kept, "from": in_address(start), "to": in_address(end)})


def tomorrow(now: datetime, zone: tzinfo, hour: int) -> datetime:
    """An hour of the next day."""
    return datetime.combine(now.astimezone(zone).date() + timedelta(days=1), time(hour), zone)
