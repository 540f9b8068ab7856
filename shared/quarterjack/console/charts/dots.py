"""Figures of runs over time as dots in one SVG: one path for each outcome, and dashed lines for the median and the 95th percentile.

The drawing is stretched to the width of its page; dots keep their shape, as they are ends of lines without a length. A success is
round, a failure is square and larger, what was never started or is not over is small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from quarterjack.console.words import duration, look, plural

WIDE, TALL = 1_000, 100  # units of the drawing
_EDGE = 6  # units above the highest dot and below the lowest


@dataclass(frozen=True)
class Dot:
    """A run's figure."""

    at: datetime  # when it was due
    value: timedelta
    state: str  # of the run


@dataclass(frozen=True)
class DotChart:
    """A figure of some runs, and what a page says about it."""

    title: str
    dots: Sequence[Dot]  # in any order

    @property
    def median(self) -> timedelta:
        """Half of the runs have no more."""
        return percentile([dot.value for dot in self.dots], 0.5)

    @property
    def p95(self) -> timedelta:
        """Of twenty runs, nineteen have no more."""
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
        """The drawing for who does not see it."""
        figures = f"median {duration(self.median)}, 95th percentile {duration(self.p95)}, most {duration(self.most)}"
        return f"{self.title} of {plural(len(self.dots), 'run')}: {figures}"

    def drawn(self) -> Markup:
        """The SVG."""
        top, begin = self.most.total_seconds(), self.first.timestamp()
        span = self.last.timestamp() - begin
        paths: dict[str, list[str]] = {}
        for dot in sorted(self.dots, key=lambda one: one.at):
            left = WIDE / 2 if span <= 0 else _EDGE + (WIDE - 2 * _EDGE) * (dot.at.timestamp() - begin) / span
            paths.setdefault(look(dot.state), []).append(f"M{left:.0f} {_height(dot.value, top):.0f}h0")
        lines = ((kind, _height(value, top)) for kind, value in (("median", self.median), ("p95", self.p95)))
        shapes = [Markup('<path class="{}" d="M0 {:.0f}h{}"/>').format(kind, y, WIDE) for kind, y in lines]
        shapes += [Markup('<path class="{}" d="{}"/>').format(kind, "".join(d)) for kind, d in sorted(paths.items())]
        return Markup(
            '<svg class="dots" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">{}</svg>'
        ).format(self.in_words, WIDE, TALL, Markup("").join(shapes))


def percentile(values: Sequence[timedelta], share: float) -> timedelta:
    """The smallest of some values that so large a share of them does not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def _height(value: timedelta, most: float) -> float:
    """Units from above, by the root of the value, so that short runs beside a long one are still told apart."""
    share = math.sqrt(max(value.total_seconds(), 0.0) / most) if most > 0 else 0.0
    return TALL - _EDGE - (TALL - 2 * _EDGE) * share
