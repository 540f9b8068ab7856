"""Instants as people read them: with day, zone, and how far away they are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from quarterjack.terminal import relative, span

if TYPE_CHECKING:
    from quarterjack.sdk.views import Run


def away(moment: datetime | None) -> str:
    """How far away it is, as ``in 1 d 6 h`` or ``3 min ago``; nothing for None."""
    return "" if moment is None else relative(moment, datetime.now(UTC))


def day_and_time(moment: datetime) -> str:
    """Weekday, date, time and zone, as ``Mon 2026-11-23 09:00 CET``; seconds only if there are some."""
    clock = f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"
    return f"{moment:%a %Y-%m-%d} {clock} {moment.tzname() or moment.strftime('%z')}"


def fire(moment: datetime | None) -> str:
    """A fire with all of it: ``Mon 2026-11-23 09:00 CET (in 1 d 6 h)``; nothing for None."""
    return "" if moment is None else f"{day_and_time(moment)} ({away(moment)})"


def lateness(run: Run) -> str:
    """How late a run began. A backfill's run is none of the scheduler's delays: it says so instead."""
    if run.backfill is not None:
        return "backfill"
    return "" if run.lateness is None else span(run.lateness)


def in_short(field: str) -> Callable[[Any], str]:
    """A cell with an instant of an item, for little room: ``11-23 09:00:00Z``, with the year if it is another one than now."""

    def cell(item: Any) -> str:
        moment: datetime | None = getattr(item, field)
        if moment is None:
            return ""
        utc = moment.astimezone(UTC)
        return f"{utc:%m-%d %H:%M:%S}Z" if utc.year == datetime.now(UTC).year else f"{utc:%Y-%m-%d %H:%M:%S}Z"

    return cell
