"""The freeze of a tenant: what it holds back, and the act that begins or ends it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from starlette.responses import Response

from quarterjack.console.calls import PageCall, chosen
from quarterjack.console.pages.operations.waiting import counts_of
from quarterjack.console.parts import part
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import InvalidInput
from quarterjack.sdk.forecasts.views import Forecast
from quarterjack.timing import zone

LENGTHS: Mapping[str, tuple[str, timedelta]] = {
    "1h": ("1 hour", timedelta(hours=1)),
    "4h": ("4 hours", timedelta(hours=4)),
    "12h": ("12 hours", timedelta(hours=12)),
    "1d": ("1 day", timedelta(days=1)),
    "3d": ("3 days", timedelta(days=3)),
}

_BY_HOUR = timedelta(days=30)  # longer times are counted by the day
_FORECAST = 100  # schedules whose fires are counted


def show(call: PageCall) -> Response:
    """What is frozen now; with a length, an end or ``do=thaw`` what that act would do, and the form that does it."""
    until, fault = _wanted(call)
    thaws = call.param("do") == "thaw"
    if thaws or until is not None:
        call.require(Verb.FREEZE)
    return call.render(
        "operations/freeze.html",
        200 if fault is None else 422,
        now=call.now,
        frozen=part(call.scheduler.frozen),
        until=until,
        thaws=thaws,
        fires=None if until is None else part(lambda: _held_fires(call, until)),
        counts=counts_of(call.scheduler, call.now) if until is not None or thaws else None,
        lengths=LENGTHS,
        given={word: call.param(word) or "" for word in ("for", "until", "zone")},
        fault=fault,
        done=call.param("done"),
    )


def act(call: PageCall) -> Response:
    """Freeze until the time that was shown, or end the freeze."""
    word = chosen(call.form.get("do"), {"freeze": None, "thaw": None}, "do")
    scheduler = call.acting()
    if word == "freeze":
        scheduler.freeze(_moment(call.form.get("until", ""), None), reason=call.reason)
    else:
        scheduler.thaw()
    return call.go(call.address("freeze", done=word))


def _wanted(call: PageCall) -> tuple[datetime | None, InvalidInput | None]:
    """The end that is asked for, and what is wrong with it. None: none is."""
    try:
        text, length = call.param("until"), call.param("for")
        if text is not None:
            return _moment(text, call.param("zone") or "UTC"), None
        return (None if length is None else call.now + LENGTHS[chosen(length, LENGTHS, "for")][1]), None
    except InvalidInput as problem:
        return None, problem


def _moment(text: str, zone_name: str | None) -> datetime:
    """A time with an offset, or on the clocks of a zone. Raises InvalidInput."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput("until", text, "is not a time", "write it as 2026-12-24T18:00") from None
    if found.tzinfo is not None:
        return found.astimezone(UTC)
    if zone_name is None:
        raise InvalidInput("until", text, "has no offset", "send the form of the page")
    return found.replace(tzinfo=zone(zone_name))


def _held_fires(call: PageCall, until: datetime) -> Forecast:
    """The fires that are due before the end of a freeze, of the first schedules."""
    by_day = until - call.now > _BY_HOUR
    return call.scheduler.forecast(until=until, by="day" if by_day else "hour", listed=0, limit=_FORECAST)
