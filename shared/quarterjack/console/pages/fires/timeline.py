"""The timeline: a row for each schedule that a search finds, with what ran, what runs, and what is due in a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall
from quarterjack.console.pages.fires.lanes import Lane, drawn
from quarterjack.console.pages.fires.window import SPANS, Window, window_of
from quarterjack.console.pages.schedules.search import conditions
from quarterjack.errors import InvalidInput, QuarterjackError
from quarterjack.sdk.views import Page
from quarterjack.web.urls import cursor_in_url, cursor_of_url

ROWS = 25  # schedules of a page
RUNS, FIRES = 40, 120  # of a row, at the most
_NEXT = 10  # fires by which the window is fitted
_AT_ONCE = 8  # queries
_TICK = timedelta(milliseconds=1)


def show(call: PageCall) -> Response:
    """The page. What cannot be read in its address is shown with its fault."""
    q, name, cursor = call.param("q"), call.param("zone") or "UTC", call.param("cursor")
    page, fault = Page(items=[]), None
    try:
        page = _found(call, q, cursor)
        fires = [one.next_fires for one in page.items]
        window = window_of(call.now, start=call.param("from"), span=call.param("span"), zone_name=name, fires=fires)
    except InvalidInput as problem:
        page, fault, name = Page(items=[]), problem, "UTC"
        window = window_of(call.now, start=None, span=None, zone_name=name, fires=())
    lanes = _lanes(call, page.items, window)
    fixed = {} if window.moves else window.beside(0)
    kept = {"q": q, "zone": call.param("zone"), "span": call.param("span"), **fixed, "cursor": cursor}
    return call.render(
        "fires/timeline.html",
        200 if fault is None else 422,
        q=q or "",
        zones=sorted({"UTC", name, *(one.timezone for one in page.items)}),
        zone=name,
        span=call.param("span") or "",
        spans=SPANS,
        fault=fault,
        page=page,
        window=window,
        lanes=lanes,
        pictures={one: drawn(lane, window, call.now) for one, lane in lanes.items()},
        here_now=call.address("timeline", **kept),
        ways=_ways(call, window, kept),
        parts_of_window=[
            (window.label(part), call.address("timeline", **{**kept, **window.inside(part)})) for part in window.parts
        ],
        more=None
        if page.cursor is None
        else call.address("timeline", **{**kept, "cursor": cursor_in_url(page.cursor)}),
        since=_in_address(window.start),
        until=_in_address(window.after(window.span.length - timedelta(seconds=1))),
        now_here=call.now.astimezone(window.start.tzinfo),
    )


def _in_address(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _found(call: PageCall, q: str | None, cursor: str | None) -> Page:
    return call.scheduler.list_schedules(**conditions(q), next_fires=_NEXT, limit=ROWS, cursor=cursor_of_url(cursor))


def _ways(call: PageCall, window: Window, kept: Mapping[str, Any]) -> Sequence[tuple[str, str | None]]:
    """The windows beside this one: words, and addresses; None where there is none."""
    queries = (
        ("Earlier", window.beside(-0.5)),
        ("Now", {"from": None, "span": window.word}),
        ("Later", window.beside(0.5)),
        ("Zoom in", window.zoomed(-1)),
        ("Zoom out", window.zoomed(1)),
    )
    return [(word, None if one is None else call.address("timeline", **{**kept, **one})) for word, one in queries]


def _lanes(call: PageCall, schedules: Sequence[Any], window: Window) -> Mapping[str, Lane]:
    """A lane for each schedule, by name: at most a query of its runs and one of its rule each, side by side."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(lambda one: _lane(call, one, window), schedules)
        return dict(zip([one.name for one in schedules], found, strict=True))


def _lane(call: PageCall, schedule: Any, window: Window) -> Lane:
    try:
        runs, unread_before = _runs(call, schedule.name, window)
        due, unread_after = _due(call, schedule, window)
    except QuarterjackError as problem:  # the other rows are worth showing
        return Lane(problem=str(problem))
    return Lane(runs=runs, due=due, unread_before=unread_before, unread_after=unread_after)


def _runs(call: PageCall, name: str, window: Window) -> tuple[Sequence[Any], datetime | None]:
    """The newest runs that touch the window, also those that were due before it by up to its length."""
    if window.start > call.now:
        return (), None
    page = call.scheduler.list_runs(
        name,
        after=window.after(-window.span.length),
        before=window.after(window.span.length - _TICK),
        newest_first=True,
        upcoming=False,
        limit=RUNS,
    )
    touching = [run for run in page.items if _end(run, call.now) >= window.start]
    oldest = page.items[-1].due if page.items else window.start
    return touching, oldest if page.cursor is not None and oldest > window.start else None


def _end(run: Any, now: datetime) -> datetime:
    end: datetime = run.skipped_until or run.ended_at or now
    due: datetime = run.due
    return max(end, due)


def _due(call: PageCall, schedule: Any, window: Window) -> tuple[Sequence[datetime], datetime | None]:
    """The fires of the window that are still to come."""
    if window.end <= call.now or not schedule.next_fires:
        return (), None
    found: Sequence[datetime] = schedule.next_fires
    begin = max(window.start.astimezone(UTC), call.now)
    if begin > call.now or (len(found) == _NEXT and found[-1] < window.end):
        found = call.scheduler.preview(schedule.name, FIRES, after=begin)
    due = [fire for fire in found if fire < window.end]
    return due, due[-1] if len(due) == FIRES else None
