"""The timeline: a row for each schedule that a search finds, with its runs and coming fires in a window as a line of SVG.

The line is stretched to the width of its cell. Colour and shape are the outcome, as in the strips of bars: a success is a block, a failure
goes below the line, an unfinished run is a frame, a run that never started is a dash, and a coming fire is a short stroke.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from quarterjack.console.calls import PageCall, get
from quarterjack.console.forms import in_address
from quarterjack.console.pages.fires.window import SPANS, Window, window_of
from quarterjack.console.pages.schedules.search import conditions
from quarterjack.console.words import BAD, BUSY, GOOD, WAITING, look, plural
from quarterjack.errors import InvalidInput, QuarterjackError
from quarterjack.sdk.views import Page

ROWS = 25  # schedules of a page
RUNS, FIRES = 40, 120  # of a row, at most
_NEXT = 10  # fires by which the window is fitted
_AT_ONCE = 8  # queries
_TICK = timedelta(milliseconds=1)
WIDE, TALL, LINE = 1000, 28, 20  # units of the drawing; LINE is the height of the line
_LEAST = 3  # units of the narrowest run
_TOP = 4


@dataclass(frozen=True, kw_only=True)
class Lane:
    """The runs and coming fires of a schedule in a window."""

    runs: Sequence[Any] = ()  # that touch the window, newest first
    due: Sequence[datetime] = ()  # fires that are still to come
    unread_before: datetime | None = None  # earlier runs of the window were not read
    unread_after: datetime | None = None  # later fires of the window were not computed
    problem: str | None = None  # why nothing is known

    @property
    def said(self) -> str:
        """The lane in words."""
        if self.problem is not None:
            return self.problem
        counts = Counter(str(run.state).lower() for run in self.runs)
        ran = ", ".join(f"{count} {state}" for state, count in counts.most_common())
        parts = [f"{'last ' if self.unread_before else ''}{plural(len(self.runs), 'run')}: {ran}" if ran else ""]
        parts.append(f"{'over ' if self.unread_after else ''}{len(self.due):,} to come" if self.due else "")
        return "; ".join(part for part in parts if part) or "nothing"


def show(call: PageCall) -> Response:
    """The page. An invalid part of its address is shown with its fault."""
    q, name, cursor = call.param("q"), call.param("zone") or "UTC", call.param("cursor")
    page, fault = Page(items=[]), None
    try:
        page = _found(call, q)
        fires = [one.next_fires for one in page.items]
        window = window_of(call.now, start=call.param("from"), span=call.param("span"), zone_name=name, fires=fires)
    except InvalidInput as problem:
        page, fault, name = Page(items=[]), problem, "UTC"
        window = window_of(call.now, start=None, span=None, zone_name=name, fires=())
    lanes = _lanes(call, page.items, window)
    fixed = {} if window.moves else window.beside(0)
    given = {"q": q, "zone": call.param("zone"), "span": call.param("span"), **fixed}
    kept = {**given, "cursor": cursor}
    return call.render(
        "fires/timeline.html",
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
        more=call.further(page.cursor, "timeline", **given),
        since=in_address(window.start),
        until=in_address(window.after(window.span.length - timedelta(seconds=1))),
        now_here=call.now.astimezone(window.start.tzinfo),
    )


def _found(call: PageCall, q: str | None) -> Page:
    return call.scheduler.list_schedules(**conditions(q), next_fires=_NEXT, limit=ROWS, cursor=call.cursor)


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
    except QuarterjackError as problem:  # the other rows are shown
        return Lane(problem=str(problem))
    return Lane(runs=runs, due=due, unread_before=unread_before, unread_after=unread_after)


def _runs(call: PageCall, name: str, window: Window) -> tuple[Sequence[Any], datetime | None]:
    """The newest runs that touch the window. A run may be due before it, by up to its length."""
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


def drawn(lane: Lane, window: Window, now: datetime) -> Markup:
    """The picture of a lane."""
    paths: dict[str, list[str]] = {}
    for run in reversed(lane.runs):
        kind, left, right = look(run.state), *_extent(run, window, now)
        paths.setdefault(kind, []).append(_shape(kind, left, right))
    if due := dict.fromkeys(round(window.share(fire) * WIDE) for fire in lane.due):
        paths["due"] = [f"M{place} {LINE}v-8" for place in due]
    if unread := "".join(_unread(lane, window)):
        paths["unread"] = [unread]
    grid = "".join(f"M{round(window.share(part) * WIDE)} 0v{TALL}" for part in window.parts[1:])
    marks = [("grid", grid), ("line", f"M0 {LINE}h{WIDE}")]
    if window.start <= now <= window.end:
        marks.append(("now", f"M{round(window.share(now) * WIDE)} 0v{TALL}"))
    shapes = [*marks, *((kind, "".join(dict.fromkeys(parts))) for kind, parts in sorted(paths.items()))]
    return Markup(
        '<svg class="bars lane" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">{}</svg>'
    ).format(lane.said, WIDE, TALL, _paths(shapes))


def _paths(shapes: Iterable[tuple[str, str]]) -> Markup:
    return Markup("").join(Markup('<path class="{}" d="{}"/>').format(kind, path) for kind, path in shapes)


def _extent(run: Any, window: Window, now: datetime) -> tuple[int, int]:
    """Where a run begins and ends in the drawing: from its start, or from when it was due, to its end, or to now."""
    begin = run.started_at or run.due
    end = run.skipped_until or run.ended_at or max(now, begin)
    left = min(round(window.share(begin) * WIDE), WIDE - _LEAST)
    return left, max(round(window.share(end) * WIDE), left + _LEAST)


def _shape(kind: str, left: int, right: int) -> str:
    if kind == GOOD:
        return f"M{left} {LINE}V{_TOP}H{right}V{LINE}z"
    if kind == BAD:
        return f"M{left} {TALL}V{_TOP}H{right}V{TALL}z"
    if kind == BUSY:
        return f"M{left} {LINE}V{_TOP}H{right}V{LINE}z"
    if kind == WAITING:
        return f"M{left} {LINE}V{(_TOP + LINE) // 2}H{right}V{LINE}z"
    return f"M{left} {LINE - 1}H{right}v2H{left}z"


def _unread(lane: Lane, window: Window) -> Iterable[str]:
    if lane.unread_before is not None:
        yield f"M0 {LINE - 5}H{round(window.share(lane.unread_before) * WIDE)}v4H0z"
    if lane.unread_after is not None:
        yield f"M{round(window.share(lane.unread_after) * WIDE)} {LINE - 5}H{WIDE}v4H{round(window.share(lane.unread_after) * WIDE)}z"


ROUTES = (get("/timeline", show),)
