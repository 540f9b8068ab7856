"""The freeze of a tenant: what it holds back in numbers, and the action that begins or ends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, Part, get, part, post
from quarterjack.console.forms import chosen, time_typed, zone_of
from quarterjack.domain.run import RunState
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import InvalidInput
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.sdk.schedules.forecast_views import Forecast

_COUNTED = 200  # schedules and runs, at most
_WAITING = (RunState.QUEUED, RunState.RETRYING, RunState.CONTINUED)
LENGTHS: Mapping[str, tuple[str, timedelta]] = {
    "1h": ("1 hour", timedelta(hours=1)),
    "4h": ("4 hours", timedelta(hours=4)),
    "12h": ("12 hours", timedelta(hours=12)),
    "1d": ("1 day", timedelta(days=1)),
    "3d": ("3 days", timedelta(days=3)),
}

_BY_HOUR = timedelta(days=30)  # longer times are counted by the day
_FORECAST = 100  # schedules whose fires are counted


def counts_of(scheduler: Scheduler, now: datetime) -> Mapping[str, Part]:
    """The first page of a tenant's active schedules, of its running runs, and of its runs that wait for a worker."""
    asked: Mapping[str, Callable[[], Any]] = {
        "schedules": lambda: scheduler.list_schedules(state="ACTIVE", limit=_COUNTED),
        "running": lambda: scheduler.list_running(limit=_COUNTED),
        "waiting": lambda: scheduler.list_runs(state=_WAITING, until=now, limit=_COUNTED),
    }
    return {name: part(ask) for name, ask in asked.items()}


def show(call: PageCall) -> Response:
    """The freeze; with a length, an end or ``do=thaw`` also what that action would do, and the form that does it."""
    until, fault = _wanted(call)
    thaws = call.param("do") == "thaw"
    if thaws or until is not None:
        call.require(Verb.FREEZE)
    return call.render(
        "operations/freeze.html",
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
        scheduler.freeze(time_typed(call.form.get("until", ""), "until"), reason=call.reason)
    else:
        scheduler.thaw()
    return call.go(call.address("freeze", done=word))


def _wanted(call: PageCall) -> tuple[datetime | None, InvalidInput | None]:
    """The end in the address, and its fault; None for each that there is not."""
    try:
        text, length = call.param("until"), call.param("for")
        if text is not None:
            return time_typed(text, "until", zone_of(call.param("zone") or "UTC")), None
        return (None if length is None else call.now + LENGTHS[chosen(length, LENGTHS, "for")][1]), None
    except InvalidInput as problem:
        return None, problem


def _held_fires(call: PageCall, until: datetime) -> Forecast:
    """The fires that are due before the end of a freeze, of the first schedules."""
    by_day = until - call.now > _BY_HOUR
    return call.scheduler.forecast(until=until, by="day" if by_day else "hour", listed=0, limit=_FORECAST)


ROUTES = (get("/freeze", show), post("/freeze", act))
