"""What fires in a time: a bar for each minute or hour, and the schedules by their first fire."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall
from quarterjack.console.charts.load import load_bars
from quarterjack.console.pages.fires.asked import (
    forecast_conditions,
    in_address,
    in_form,
    moment_of,
    part_of,
    tomorrow,
    ways_on,
)
from quarterjack.console.pages.fires.window import zone_of
from quarterjack.errors import InvalidInput

ROWS, MOST = 200, 1_000  # schedules that are listed, and if more are asked for
_BY: tuple[tuple[timedelta, Any], ...] = ((timedelta(hours=3), "minute"), (timedelta(days=7), "hour"))


def show(call: PageCall) -> Response:
    """The page. What cannot be read in its address is shown with its fault."""
    kept = {name: call.param(name) for name in ("q", "zone", "count")}
    values: dict[str, Any] = {"fault": None, "found": None}
    try:
        values |= _firing(call, kept)
    except InvalidInput as problem:
        values["fault"] = problem
    status = 200 if values["fault"] is None else 422
    return call.render("fires/firing.html", status, kept=kept, load_bars=load_bars, **values)


def _firing(call: PageCall, kept: Mapping[str, str | None]) -> dict[str, Any]:
    """What the page shows. Raises InvalidInput."""
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
            (word, call.address("calendar", "fires", **{**kept, "from": in_address(a), "to": in_address(b)}))
            for word, a, b in (("Earlier", _plus(start, -long), start), ("Later", end, _plus(end, long)))
            if b > call.now
        ],
        "all": call.address("calendar", "fires", **{**address, "all": "yes"}) if cut else None,
        **ways_on(call, found, "calendar", "fires", **address),
        "command": _command(found.since, end, kept),
    }


def _time(call: PageCall, zone: tzinfo) -> tuple[datetime, datetime]:
    """From and until: an hour, if only the beginning is asked for; tomorrow from two to four, if nothing is. Raises InvalidInput."""
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
    """So much later, by elapsed time."""
    return (at.astimezone(UTC) + time).astimezone(at.tzinfo)


def _command(since: datetime, until: datetime, kept: Mapping[str, str | None]) -> str:
    """The same at a terminal."""
    zone = f" --timezone {kept['zone']}" if kept["zone"] else ""
    return f"quarterjack forecast --since {in_address(since)} --until {in_address(until)}{zone} --schedules"
