"""Charts of counts as inline SVG: outcomes hour by hour, and the fires of a forecast, both as bars and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from quarterjack.console.words import BAD, GOOD, QUIET, look, plural

_HOURS_WIDE, _UP, _DOWN = 1_000, 70, 30  # units of the drawing, which is stretched to the width of its part
_GAP = 0.2  # share of a bar that is left free
_HOURS_LEAST = 2.0  # of a bar
_LOAD_WIDE, _LOAD_TALL = 1_000, 100  # units of the drawing, which is stretched to the width of its page
_GAP = 0.2  # share of a bar that is left free


def hour_bars(hours: Sequence[Any]) -> Markup:
    """The drawing of some hours, given with the latest first and drawn with the latest at the right."""
    counts = [by_look(hour.outcomes) for hour in reversed(hours)]
    step = _HOURS_WIDE / max(len(counts), 1)
    most_good = max((one[GOOD] for one in counts), default=0)
    most_bad = max((one[BAD] for one in counts), default=0)
    good = _hour_path(counts, GOOD, step, most_good, _UP, up=True)
    bad = _hour_path(counts, BAD, step, most_bad, _DOWN, up=False)
    return Markup(
        '<svg class="load" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">'
        '<path class="line" d="M0 {}h{}"/><path class="good" d="{}"/><path class="bad" d="{}"/></svg>'
    ).format(hour_words(hours), _HOURS_WIDE, _UP + _DOWN, _UP, _HOURS_WIDE, good, bad)


def by_look(outcomes: Mapping[str, int]) -> Mapping[str, int]:
    """Counts of runs that succeeded, failed for good, or ended otherwise."""
    found = {GOOD: 0, BAD: 0, QUIET: 0}
    for state, count in outcomes.items():
        kind = look(state)
        found[kind if kind in found else QUIET] += count
    return found


def hour_words(hours: Sequence[Any]) -> str:
    """The drawing in words, for screen readers."""
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


def _hour_path(counts: Sequence[Mapping[str, int]], kind: str, step: float, most: int, room: int, *, up: bool) -> str:
    bars = []
    for place, one in enumerate(counts):
        if one[kind]:
            height = max(room * one[kind] / most, _HOURS_LEAST)
            end = _UP - height if up else _UP + height
            bars.append(f"M{place * step:.1f} {_UP}V{end:.1f}h{step * (1 - _GAP):.1f}V{_UP}z")
    return "".join(bars)


def load_bars(spans: Sequence[Any]) -> Markup:
    """The drawing of some spans of a forecast."""
    most, step = max((span.fires for span in spans), default=0), _LOAD_WIDE / max(len(spans), 1)
    bars = [
        f"M{place * step:.1f} {_LOAD_TALL}V{_LOAD_TALL - max(_LOAD_TALL * span.fires / most, 2):.1f}h{step * (1 - _GAP):.1f}V{_LOAD_TALL}z"
        for place, span in enumerate(spans)
        if span.fires
    ]
    return Markup(
        '<svg class="load" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none"><path d="{}"/></svg>'
    ).format(load_words(spans), _LOAD_WIDE, _LOAD_TALL, "".join(bars))


def load_words(spans: Sequence[Any]) -> str:
    """The drawing in words, for screen readers."""
    total, most = sum(span.fires for span in spans), max(spans, key=lambda span: span.fires, default=None)
    if most is None or not total:
        return "no fires"
    quiet = sum(not span.fires for span in spans)
    said = f"{plural(total, 'fire')}, the most {most.fires:,} from {most.start:%a} {most.start.day} {most.start:%b %H:%M} on"
    return f"{said}; {quiet} of {len(spans)} parts are quiet" if quiet else said


def short_count(number: int) -> str:
    """A count in four characters at the most."""
    if number < 1_000:
        return str(number)
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            share = number / size
            return f"{share:.1f}{unit}" if share < 9.95 else f"{share:.0f}{unit}"
    raise AssertionError
