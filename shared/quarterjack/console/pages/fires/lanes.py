"""A schedule's runs and fires over a window of time, in one line of SVG: one path for each outcome.

The line is stretched to the width of its cell. Colour and shape are the outcome, as in the strips of bars: a success is a block, a
failure goes below the line, a run that is not over is a frame, what never started is a dash, and a fire that is due is a short stroke.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from markupsafe import Markup

from quarterjack.console.pages.fires.window import Window
from quarterjack.console.words import BAD, BUSY, GOOD, WAITING, look, plural

WIDE, TALL, LINE = 1000, 28, 20  # units of the drawing; LINE is where the line lies
_LEAST = 3  # units that a run is wide at the least
_TOP = 4


@dataclass(frozen=True, kw_only=True)
class Lane:
    """What is known of a schedule in a window."""

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
