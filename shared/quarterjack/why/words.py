"""Instants and durations in the words of answers."""

from __future__ import annotations

from quarterjack.domain.times import DAY, HOUR, MINUTE, SECOND, from_ms


def show(ms: int) -> str:
    """An instant (UTC ms), to the second: ``2026-05-04 09:00:00Z``."""
    return f"{from_ms(ms):%Y-%m-%d %H:%M:%S}Z"


def exact(ms: int) -> str:
    """The instant of a fire (UTC ms), with milliseconds if it has some, as those of a rate may."""
    part = f".{ms % SECOND:03}" if ms % SECOND else ""
    return f"{show(ms)[:-1]}{part}Z"


def clock(ms: int) -> str:
    """The time of day of an instant (UTC ms)."""
    return show(ms)[11:]


def span(ms: int) -> str:
    """A duration (ms) in its two largest units: ``2 h 5 min``."""
    if ms < 10 * SECOND:
        return f"{ms / SECOND:.1f} s"
    parts, left = [], ms
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s")):
        if left >= unit:
            parts.append(f"{left // unit} {name}")
            left %= unit
    return " ".join(parts[:2])


def count(number: int, what: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")
