"""Charts of single runs as inline SVG: the strip of bars in a list, and dots over time. One path draws each outcome.

In the strip the height of a bar is the duration. A success is a full bar, a failure has a notch at its head and a foot below the line, an
unfinished run is a frame, and a run that never started is a dash on the line.

The dots are drawn in a page's width; they keep their shape because each is the end of a line without a length. A success is round, a
failure is square and larger, every other state is small. Dashed lines show the median and the 95th percentile.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from markupsafe import Markup

from quarterjack.console.words import BAD, BUSY, GOOD, WAITING, duration, look, plural, took

_STEP, _WIDE = 6, 4  # px from one bar to the next, and of a bar
_TALL, _FOOT = 24, 5  # px above the line and below it
_LEAST = 3  # px of the shortest run
_DOTS_WIDE, _DOTS_TALL = 1_000, 100  # units of the drawing
_DOTS_EDGE = 6  # units above the highest dot and below the lowest


def run_bars(runs: Sequence[Any], slots: int = 30) -> Markup:
    """The strip of some runs, given newest first and drawn with the newest at the right."""
    wide, longest = slots * _STEP, _longest(runs)
    paths: dict[str, list[str]] = {}
    for place, run in enumerate(runs[:slots]):
        kind = look(run.state)
        paths.setdefault(kind, []).append(_shape(kind, wide - (place + 1) * _STEP + 1, _bar_height(run, longest)))
    drawn = Markup("").join(
        Markup('<path class="{}" d="{}"/>').format(kind, "".join(parts)) for kind, parts in sorted(paths.items())
    )
    return Markup(
        '<svg class="bars" role="img" aria-label="{}" width="{}" height="{}" viewBox="0 0 {} {}">'
        '<path class="line" d="M0 {}h{}"/>{}</svg>'
    ).format(
        strip_words(runs[:slots]),
        wide,
        _TALL + _FOOT,
        wide,
        _TALL + _FOOT,
        f"{_TALL}.5",
        wide,
        drawn,
    )


def strip_words(runs: Iterable[Any]) -> str:
    """The strip in words, for screen readers."""
    counts = Counter(str(run.state).lower() for run in runs)
    if not counts:
        return "no runs yet"
    said = ", ".join(f"{count} {state}" for state, count in counts.most_common())
    return f"last {plural(sum(counts.values()), 'run')}: {said}"


def _longest(runs: Iterable[Any]) -> float:
    return max((one.total_seconds() for one in map(took, runs) if one is not None), default=0.0)


def _bar_height(run: Any, longest: float) -> int:
    """By the root of the duration, which keeps a short run visible beside a long one."""
    time = took(run)
    if time is None or longest <= 0:
        return _LEAST if time is not None else _TALL // 3
    return _LEAST + round((_TALL - _LEAST) * math.sqrt(max(time.total_seconds(), 0.0) / longest))


def _shape(kind: str, left: int, height: int) -> str:
    top = _TALL - height
    if kind == GOOD:
        return f"M{left} {_TALL}V{top}h{_WIDE}V{_TALL}z"
    if kind == BAD:
        return f"M{left} {_TALL + _FOOT}V{top}l{_WIDE / 2:g} 2l{_WIDE / 2:g} -2V{_TALL + _FOOT}l-{_WIDE / 2:g} -3z"
    if kind in (BUSY, WAITING):
        return f"M{left}.5 {_TALL}V{top}.5h{_WIDE - 1}V{_TALL}z"
    return f"M{left} {_TALL - 2}h{_WIDE}v2h-{_WIDE}z"


@dataclass(frozen=True)
class Dot:
    """A run's figure."""

    at: datetime  # when it was due
    value: timedelta
    state: str  # of the run


@dataclass(frozen=True)
class DotChart:
    """A figure of some runs, as a drawing and in words."""

    title: str
    dots: Sequence[Dot]  # in any order

    @property
    def median(self) -> timedelta:
        """Half of the runs have no more."""
        return percentile([dot.value for dot in self.dots], 0.5)

    @property
    def p95(self) -> timedelta:
        """Nineteen of twenty runs have no more."""
        return percentile([dot.value for dot in self.dots], 0.95)

    @property
    def most(self) -> timedelta:
        """The largest of all."""
        return max(dot.value for dot in self.dots)

    @property
    def first(self) -> datetime:
        """When the earliest run was due."""
        return min(dot.at for dot in self.dots)

    @property
    def last(self) -> datetime:
        """When the latest run was due."""
        return max(dot.at for dot in self.dots)

    @property
    def in_words(self) -> str:
        """The drawing in words, for screen readers."""
        figures = f"median {duration(self.median)}, 95th percentile {duration(self.p95)}, most {duration(self.most)}"
        return f"{self.title} of {plural(len(self.dots), 'run')}: {figures}"

    def drawn(self) -> Markup:
        """The SVG."""
        top, begin = self.most.total_seconds(), self.first.timestamp()
        span = self.last.timestamp() - begin
        paths: dict[str, list[str]] = {}
        for dot in sorted(self.dots, key=lambda one: one.at):
            left = (
                _DOTS_WIDE / 2
                if span <= 0
                else _DOTS_EDGE + (_DOTS_WIDE - 2 * _DOTS_EDGE) * (dot.at.timestamp() - begin) / span
            )
            paths.setdefault(look(dot.state), []).append(f"M{left:.0f} {_dot_height(dot.value, top):.0f}h0")
        lines = ((kind, _dot_height(value, top)) for kind, value in (("median", self.median), ("p95", self.p95)))
        shapes = [Markup('<path class="{}" d="M0 {:.0f}h{}"/>').format(kind, y, _DOTS_WIDE) for kind, y in lines]
        shapes += [Markup('<path class="{}" d="{}"/>').format(kind, "".join(d)) for kind, d in sorted(paths.items())]
        return Markup(
            '<svg class="dots" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">{}</svg>'
        ).format(self.in_words, _DOTS_WIDE, _DOTS_TALL, Markup("").join(shapes))


def percentile(values: Sequence[timedelta], share: float) -> timedelta:
    """The smallest of some values that so large a share of them does not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def _dot_height(value: timedelta, most: float) -> float:
    """Units from above, by the root of the value, which keeps short runs apart beside a long one."""
    share = math.sqrt(max(value.total_seconds(), 0.0) / most) if most > 0 else 0.0
    return _DOTS_TALL - _DOTS_EDGE - (_DOTS_TALL - 2 * _DOTS_EDGE) * share
