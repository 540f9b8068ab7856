"""Runs as bars in one line of SVG: the height is the duration, colour and shape are the outcome; one path for each outcome.

A success is a full bar, a failure has a notch at its head and a foot below the line, a run that is not over is a frame, and what
never started is a dash on the line.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

from quarterjack.console.words import BAD, BUSY, GOOD, WAITING, look, plural, took

STEP, WIDE = 6, 4  # px from one bar to the next, and of a bar
TALL, FOOT = 24, 5  # px above the line and below it
_LEAST = 3  # px of the shortest run


def run_bars(runs: Sequence[Any], slots: int = 30) -> Markup:
    """The strip of some runs, given newest first and drawn with the newest at the right."""
    wide, longest = slots * STEP, _longest(runs)
    paths: dict[str, list[str]] = {}
    for place, run in enumerate(runs[:slots]):
        kind = look(run.state)
        paths.setdefault(kind, []).append(_shape(kind, wide - (place + 1) * STEP + 1, _height(run, longest)))
    drawn = Markup("").join(
        Markup('<path class="{}" d="{}"/>').format(kind, "".join(parts)) for kind, parts in sorted(paths.items())
    )
    return Markup(
        '<svg class="bars" role="img" aria-label="{}" width="{}" height="{}" viewBox="0 0 {} {}">'
        '<path class="line" d="M0 {}h{}"/>{}</svg>'
    ).format(in_words(runs[:slots]), wide, TALL + FOOT, wide, TALL + FOOT, f"{TALL}.5", wide, drawn)


def in_words(runs: Iterable[Any]) -> str:
    """The strip for who does not see it."""
    counts = Counter(str(run.state).lower() for run in runs)
    if not counts:
        return "no runs yet"
    said = ", ".join(f"{count} {state}" for state, count in counts.most_common())
    return f"last {plural(sum(counts.values()), 'run')}: {said}"


def _longest(runs: Iterable[Any]) -> float:
    return max((one.total_seconds() for one in map(took, runs) if one is not None), default=0.0)


def _height(run: Any, longest: float) -> int:
    """By the root of the duration, so that a short run beside a long one is still seen."""
    time = took(run)
    if time is None or longest <= 0:
        return _LEAST if time is not None else TALL // 3
    return _LEAST + round((TALL - _LEAST) * math.sqrt(max(time.total_seconds(), 0.0) / longest))


def _shape(kind: str, left: int, height: int) -> str:
    top = TALL - height
    if kind == GOOD:
        return f"M{left} {TALL}V{top}h{WIDE}V{TALL}z"
    if kind == BAD:
        return f"M{left} {TALL + FOOT}V{top}l{WIDE / 2:g} 2l{WIDE / 2:g} -2V{TALL + FOOT}l-{WIDE / 2:g} -3z"
    if kind in (BUSY, WAITING):
        return f"M{left}.5 {TALL}V{top}.5h{WIDE - 1}V{TALL}z"
    return f"M{left} {TALL - 2}h{WIDE}v2h-{WIDE}z"
