"""The fires of spans of time as bars in one SVG: one path, the fullest span as high as the drawing; and in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from quarterjack.console.words import plural

WIDE, TALL = 1_000, 100  # units of the drawing, which is stretched to the width of its page
_GAP = 0.2  # share of a bar that is left free


def load_bars(spans: Sequence[Any]) -> Markup:
    """The drawing of some spans of a forecast."""
    most, step = max((span.fires for span in spans), default=0), WIDE / max(len(spans), 1)
    bars = [
        f"M{place * step:.1f} {TALL}V{TALL - max(TALL * span.fires / most, 2):.1f}h{step * (1 - _GAP):.1f}V{TALL}z"
        for place, span in enumerate(spans)
        if span.fires
    ]
    return Markup(
        '<svg class="load" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none"><path d="{}"/></svg>'
    ).format(load_words(spans), WIDE, TALL, "".join(bars))


def load_words(spans: Sequence[Any]) -> str:
    """The drawing for who does not see it."""
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
