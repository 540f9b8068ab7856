"""Values as words for people. The zone stands beside every time."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from markupsafe import Markup, escape

from quarterjack.web.urls import name_in_url

# The look of a run's state: by colour and by shape, so that neither alone carries it.
GOOD, BAD, BUSY, WAITING, QUIET = "good", "bad", "busy", "waiting", "quiet"
LOOKS: Mapping[str, str] = {
    "SUCCEEDED": GOOD,
    "DEAD": BAD,
    "LOST": BAD,
    "EXPIRED": BAD,
    "RUNNING": BUSY,
    "CONTINUED": BUSY,
    "PARKED": WAITING,
    "RETRYING": WAITING,
    "QUEUED": WAITING,
    "ACTIVE": GOOD,
    "DONE": GOOD,
    "PAUSED": WAITING,
    "BUSY": BUSY,
    "IDLE": GOOD,
    "SUSPENDED": WAITING,
    "ERASING": BAD,
    "VANISHED": BAD,
    "WARNING": WAITING,  # levels of log lines
    "ERROR": BAD,
    "CRITICAL": BAD,
}
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def look(state: str) -> str:
    """The look of a state of a run, a schedule or a worker."""
    return LOOKS.get(str(state), QUIET)


def moment(value: datetime | None, seconds: bool = False) -> Markup:  # noqa: FBT001, FBT002 (a filter's argument)
    """A time with its zone."""
    if value is None:
        return Markup('<span class="none">none</span>')
    zone = getattr(value.tzinfo, "key", None) or value.tzname() or "UTC"
    text = value.strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")
    utc = value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}" title="{}">{} <span class="zone">{}</span></time>').format(
        value.isoformat(timespec="seconds"), utc, text, zone
    )


def instant(value: datetime) -> Markup:
    """A time in UTC to the millisecond."""
    text = value.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
    return Markup('<time datetime="{}">{} <span class="zone">UTC</span></time>').format(value.isoformat(), text)


def duration(value: timedelta | None) -> str:
    """A duration, with two units at the most."""
    if value is None:
        return "unknown"
    seconds = value.total_seconds()
    if seconds < 0:
        return f"−{duration(-value)}"
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    for at, (size, unit) in enumerate(_UNITS):
        if seconds >= size:
            count, left = divmod(round(seconds), size)
            below = (*_UNITS, (1, "s"))[at + 1]
            rest = left // below[0]
            return f"{count} {unit} {rest} {below[1]}" if rest else f"{count} {unit}"
    return ""


def ago(value: datetime | None, now: datetime) -> str:
    """How far a time is from now."""
    if value is None:
        return "never"
    gap = value - now
    if abs(gap) < timedelta(seconds=1):
        return "now"
    return f"in {duration(gap)}" if gap > timedelta(0) else f"{duration(-gap)} ago"


def took(run: Any) -> timedelta | None:
    """From the first start of a run to its end; None before it."""
    return None if run.started_at is None or run.ended_at is None else run.ended_at - run.started_at


def plural(count: int, word: str, many: str | None = None) -> str:
    """A count with its noun."""
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def figure(page: Any) -> str:
    """The number of things on a page; where more may follow, the least number of them."""
    count = len(page.items)
    if page.cursor is None:
        return f"{count:,}"
    return f"at least {count:,}" if count else "not counted yet"


def seconds(value: float) -> str:
    """A number of seconds as a duration."""
    return duration(timedelta(seconds=value))


def told(value: Any) -> str:
    """A value of a line, short: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def in_utc(value: datetime) -> datetime:
    """The same time in UTC."""
    return value.astimezone(UTC)


def pretty(value: Any) -> str:
    """A JSON value for reading."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def badge(state: str) -> Markup:
    """A state in a pill. Its shape is the dot's: full, cross, ring, half, dash."""
    return Markup('<span class="badge {}"><i class="dot" aria-hidden="true"></i>{}</span>').format(
        look(state), escape(str(state).lower())
    )


def finding(word: str, verdict: str) -> Markup:
    """A verdict of the doctor in a pill."""
    kind = {"ok": GOOD, "warn": WAITING}.get(str(verdict), BAD)
    return Markup('<span class="badge {}"><i class="dot" aria-hidden="true"></i>{}</span>').format(kind, word)


FILTERS: Mapping[str, Callable[..., Any]] = {
    "moment": moment,
    "quoted": shlex.quote,
    "instant": instant,
    "duration": duration,
    "ago": ago,
    "took": took,
    "plural": plural,
    "pretty": pretty,
    "badge": badge,
    "look": look,
    "figure": figure,
    "seconds": seconds,
    "told": told,
    "finding": finding,
    "utc": in_utc,
    "in_url": name_in_url,
}
