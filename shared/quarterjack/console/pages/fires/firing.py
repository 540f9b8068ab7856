"""The fires of a span of time: a bar for each minute or hour, and the schedules by their first fire.

What the addresses of the calendar and of this page have in common stands here, too: a search, a first day, and times.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, get
from quarterjack.console.count_charts import load_bars
from quarterjack.console.forms import in_address, in_form, time_typed, zone_of
from quarterjack.console.pages.schedules.search import conditions
from quarterjack.errors import InvalidInput
from quarterjack.sdk.schedules.forecast_views import MOST_SCHEDULES, Forecast

_READ = 1_500  # schedules of a page, unless all are asked for: fewer than 250 read units
_FIRST, _LAST = date(1971, 1, 1), date(9000, 1, 1)
ROWS, MOST = 200, 1_000  # schedules that are listed, and if more are asked for
_BY: tuple[tuple[timedelta, Any], ...] = ((timedelta(hours=3), "minute"), (timedelta(days=7), "hour"))


def forecast_conditions(text: str | None) -> dict[str, Any]:
    """The conditions of a search, as keywords of ``forecast``. Raises InvalidInput."""
    found = conditions(text)
    if "state" in found:
        remedy = "leave it out: active schedules are counted, and paused ones from the end of their pause on"
        raise InvalidInput("q", text, "names a state, which a forecast does not filter by", remedy)
    return found


def part_of(call: PageCall) -> dict[str, Any]:
    """How many schedules the page reads, and its cursor, as keywords of ``forecast``. Raises InvalidInput."""
    counted = call.param("count")
    if counted not in (None, "all"):
        raise InvalidInput("count", counted, "is not a part of the schedules", "use all, or leave it out")
    return {
        "limit": _READ if counted is None else MOST_SCHEDULES,
        "cursor": call.cursor,
    }


def ways_on(call: PageCall, found: Forecast, *segments: str, **kept: object) -> dict[str, Any]:
    """Values for a page that has not read all schedules: the address of the next part, and of all at once."""
    more = call.further(found.cursor, *segments, **{word: value for word, value in kept.items() if word != "cursor"})
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


def moment_of(call: PageCall, field: str, local: tzinfo) -> datetime | None:
    """A time in the address, in the zone ``local``; None: there is none. Raises InvalidInput."""
    text = call.param(field)
    if text is None:
        return None
    found = time_typed(text, field, local)
    if not _FIRST <= found.date() <= _LAST:
        raise InvalidInput(field, text, "is not a time of a forecast", "use a time like 2026-05-04T08:00")
    return found.astimezone(local)


def fires_address(call: PageCall, kept: Mapping[str, Any], start: datetime, end: datetime) -> str:
    """The address of this page for a span of time."""
    return call.address("calendar", "fires", **{**kept, "from": in_address(start), "to": in_address(end)})


def tomorrow(now: datetime, zone: tzinfo, hour: int) -> datetime:
    """An hour of the next day."""
    return datetime.combine(now.astimezone(zone).date() + timedelta(days=1), time(hour), zone)


def show(call: PageCall) -> Response:
    """The page. An invalid part of its address is shown with its fault."""
    kept = {name: call.param(name) for name in ("q", "zone", "count")}
    values: dict[str, Any] = {"fault": None, "found": None}
    try:
        values |= _firing(call, kept)
    except InvalidInput as problem:
        values["fault"] = problem
    return call.render("fires/firing.html", kept=kept, load_bars=load_bars, **values)


def _firing(call: PageCall, kept: Mapping[str, str | None]) -> dict[str, Any]:
    """The values of the page. Raises InvalidInput."""
    zone = zone_of(kept["zone"] or "UTC")
    start, end = _time(call, zone)
    long = end.astimezone(UTC) - start.astimezone(UTC)
    found = call.scheduler.forecast(
        since=start,
        until=end,
        by=next((by for length, by in _BY if long <= length), "day"),
        timezone=kept["zone"] or "UTC",
        listed=MOST if call.param("all") else ROWS,
        **part_of(call),
        **forecast_conditions(kept["q"]),
    )
    address = {**kept, "from": in_address(start), "to": in_address(end)}
    cut = found.firing > len(found.schedules) and not call.param("all")
    return {
        "found": found,
        "start": in_form(start),
        "end": in_form(end),
        "moved": [
            (word, fires_address(call, kept, a, b))
            for word, a, b in (("Earlier", _plus(start, -long), start), ("Later", end, _plus(end, long)))
            if b > call.now
        ],
        "all": call.address("calendar", "fires", **{**address, "all": "yes"}) if cut else None,
        **ways_on(call, found, "calendar", "fires", **address),
        "command": _command(found.since, end, kept),
    }


def _time(call: PageCall, zone: tzinfo) -> tuple[datetime, datetime]:
    """Beginning and end. Without an end it is an hour, without both it is tomorrow from two to four. Raises InvalidInput."""
    start, end = moment_of(call, "from", zone), moment_of(call, "to", zone)
    if start is None:
        start, end = (
            (call.now.astimezone(zone), end) if end else (tomorrow(call.now, zone, 2), tomorrow(call.now, zone, 4))
        )
    if end is None:
        end = _plus(start, timedelta(hours=1))
    if end.astimezone(UTC) <= start.astimezone(UTC):
        raise InvalidInput("to", in_form(end), "is not after the beginning", "give a later time")
    return start, end


def _plus(at: datetime, time: timedelta) -> datetime:
    """The time so much later, in elapsed time."""
    return (at.astimezone(UTC) + time).astimezone(at.tzinfo)


def _command(since: datetime, until: datetime, kept: Mapping[str, str | None]) -> str:
    """The command that prints the same forecast."""
    zone = f" --timezone {kept['zone']}" if kept["zone"] else ""
    return f"quarterjack forecast --since {in_address(since)} --until {in_address(until)}{zone} --schedules"


ROUTES = (get("/calendar/fires", show),)
