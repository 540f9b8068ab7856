"""A heat map: a row for each day, a cell for each hour of its clock, with its fires; and its peaks and quiet times."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any

from quarterjack.timing.zones.zone import table

_HOUR = timedelta(hours=1)

LEVELS = 5  # looks of a cell that has fires
_TOLD = 5  # peaks, and quiet times


@dataclass(frozen=True)
class HeatCell:
    """An hour of a day: two spans if the clocks repeat it."""

    start: datetime
    end: datetime
    fires: int
    level: int  # 0: none; up to LEVELS


@dataclass(frozen=True)
class HeatRow:
    """A day."""

    day: date
    cells: Sequence[HeatCell | None]  # by hour; None: past, or no such hour on that day
    fires: int
    is_weekend: bool
    remarks: Sequence[str]  # a holiday's name, a change of the clocks


@dataclass(frozen=True)
class Stretch:
    """Hours in a row with equally few fires."""

    start: datetime
    end: datetime
    fires: int  # of each hour

    @property
    def length(self) -> timedelta:
        """Of elapsed time."""
        return self.end.astimezone(UTC) - self.start.astimezone(UTC)


@dataclass(frozen=True)
class ClockChange:
    """A change of the clocks."""

    at: datetime
    note: str


def heat_rows(
    spans: Sequence[Any],
    days: Sequence[date],
    holiday: Callable[[date], str | None],
    changes: Sequence[ClockChange],
) -> Sequence[HeatRow]:
    """The rows of some days."""
    by_hour: dict[tuple[date, int], list[Any]] = {}
    for span in spans:
        by_hour.setdefault((span.start.date(), span.start.hour), []).append(span)
    cells = _cells(by_hour)
    return [_row(day, cells, holiday(day), changes) for day in days]


def _row(
    day: date, cells: Mapping[tuple[date, int], HeatCell], holiday: str | None, changes: Sequence[ClockChange]
) -> HeatRow:
    row = [cells.get((day, hour)) for hour in range(24)]
    said = [*([holiday] if holiday else []), *(one.note for one in changes if one.at.date() == day)]
    total = sum(cell.fires for cell in row if cell is not None)
    return HeatRow(day, row, total, is_weekend=day.weekday() >= 5, remarks=said)


def _cells(by_hour: Mapping[tuple[date, int], Sequence[Any]]) -> Mapping[tuple[date, int], HeatCell]:
    counts = {key: sum(span.fires for span in spans) for key, spans in by_hour.items()}
    busy = [count for count in counts.values() if count]
    least, most = min(busy, default=0), max(busy, default=0)
    return {
        key: HeatCell(spans[0].start, spans[-1].end, counts[key], _level(counts[key], least, most))
        for key, spans in by_hour.items()
    }


def _level(fires: int, least: int, most: int) -> int:
    """From the least to the most of an hour that has any, by the root of the share, so that few fires beside many are told apart."""
    if not fires or least == most:
        return min(fires, 1)
    return 1 + round((LEVELS - 1) * math.sqrt((fires - least) / (most - least)))


def peaks(spans: Sequence[Any]) -> Sequence[Any]:
    """The spans with the most fires, the fullest first."""
    busy = [span for span in spans if span.fires]
    return sorted(busy, key=lambda span: (-span.fires, span.start.astimezone(UTC)))[:_TOLD]


def quiet_times(spans: Sequence[Any]) -> Sequence[Stretch]:
    """The longest stretches with the fewest fires of all, in order of time."""
    whole = [
        span for span in spans if span.end - span.start >= _HOUR
    ]  # a part of an hour has fewer fires than its hour
    spans = whole or spans
    least = min((span.fires for span in spans), default=0)
    found = [
        Stretch(some[0].start, some[-1].end, least)
        for is_least, group in groupby(spans, key=lambda span: span.fires == least)
        if is_least and (some := list(group))
    ]
    longest = sorted(found, key=lambda one: one.length, reverse=True)[:_TOLD]
    return sorted(longest, key=lambda one: one.start.astimezone(UTC))


def clock_changes(zone_name: str, since: datetime, until: datetime) -> Sequence[ClockChange]:
    """The changes of a zone's clocks in some time."""
    first, last = int(since.timestamp()), int(until.timestamp())
    return [
        ClockChange(
            datetime.fromtimestamp(instant, UTC).astimezone(since.tzinfo),
            f"clocks go {'forward' if after > before else 'back'} from {_clock(instant + before)} to {_clock(instant + after)}",
        )
        for instant, before, after in table(zone_name).changes(first - 1, last)
    ]


def _clock(local: int) -> str:
    return f"{datetime.fromtimestamp(local, UTC):%H:%M}"
