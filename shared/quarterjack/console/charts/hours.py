"""What became of runs hour by hour, in one SVG: above the line what succeeded, below it what failed; one path for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from quarterjack.console.words import BAD, GOOD, QUIET, look, plural

_WIDE, _UP, _DOWN = 1_000, 70, 30  # units of the drawing, which is stretched to the width of its part
_GAP = 0.2  # share of a bar that is left free
_LEAST = 2.0  # of a bar


def hour_bars(hours: Sequence[Any]) -> Markup:
    """The drawing of some hours, given with the latest first and drawn with the latest at the right."""
    counts = [by_look(hour.outcomes) for hour in reversed(hours)]
    step = _WIDE / max(len(counts), 1)
    most_good = max((one[GOOD] for one in counts), default=0)
    most_bad = max((one[BAD] for one in counts), default=0)
    good = _path(counts, GOOD, step, most_good, _UP, up=True)
    bad = _path(counts, BAD, step, most_bad, _DOWN, up=False)
    return Markup(
        '<svg class="load" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">'
        '<path class="line" d="M0 {}h{}"/><path class="good" d="{}"/><path class="bad" d="{}"/></svg>'
    ).format(in_words(hours), _WIDE, _UP + _DOWN, _UP, _WIDE, good, bad)


def by_look(outcomes: Mapping[str, int]) -> Mapping[str, int]:
    """Runs by what their state means: succeeded, failed for good, or ended otherwise."""
    found = {GOOD: 0, BAD: 0, QUIET: 0}
    for state, count in outcomes.items():
        kind = look(state)
        found[kind if kind in found else QUIET] += count
    return found


def in_words(hours: Sequence[Any]) -> str:
    """The drawing for who does not see it."""
    counts = [by_look(hour.outcomes) for hour in hours]
    good, bad = sum(one[GOOD] for one in counts), sum(one[BAD] for one in counts)
    unread = sum(1 for hour in hours if not getattr(hour, "is_whole", True))
    least = "at least " if unread else ""
    if not good and not bad:
        span = plural(len(hours), "hour")
        return f"last {span}: not counted yet" if unread else f"no run ended in the last {span}"
    failed_whole = all(getattr(hour, "failed_is_whole", True) for hour in hours)
    worst = max(zip(hours, counts, strict=True), key=lambda one: one[1][BAD])
    said = f"last {plural(len(hours), 'hour')}: {least}{good:,} succeeded, {least if not failed_whole else ''}{bad:,} failed"
    return f"{said}, the most {worst[1][BAD]:,} from {worst[0].hour:%H:%M} UTC on" if bad else said


def _path(counts: Sequence[Mapping[str, int]], kind: str, step: float, most: int, room: int, *, up: bool) -> str:
    bars = []
    for place, one in enumerate(counts):
        if one[kind]:
            height = max(room * one[kind] / most, _LEAST)
            end = _UP - height if up else _UP + height
            bars.append(f"M{place * step:.1f} {_UP}V{end:.1f}h{step * (1 - _GAP):.1f}V{_UP}z")
    return "".join(bars)
