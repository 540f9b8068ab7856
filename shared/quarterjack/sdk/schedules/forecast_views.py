"""What a forecast answers, and how much one looks at. It loads nothing: the command line knows these without the SDK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

MOST_SCHEDULES = 10_000  # that one forecast looks at
MOST_LISTED = 1_000
LOOKED_AT = 2_000  # schedules of one forecast by default: about 250 read units


@dataclass(frozen=True, kw_only=True)
class ForecastSpan:
    """A minute, an hour or a day of a forecast, by the clock of its zone. The first and the last may be cut."""

    start: datetime  # in the forecast's zone
    end: datetime  # excluded
    fires: int  # that are due in it


@dataclass(frozen=True, kw_only=True)
class ComingSchedule:
    """A schedule that fires in the time of a forecast."""

    name: str
    job: str
    expression: str
    timezone: str
    fires: int  # in the time of the forecast
    first: datetime  # of these, in the schedule's zone
    resume_at: datetime | None = None  # UTC: it is paused now, and resumed before the first


@dataclass(frozen=True, kw_only=True)
class BusiestInstant:
    """The instant of a forecast with the most fires, and what the capacity model says of it."""

    at: datetime  # in the forecast's zone
    fires: int
    late: float  # seconds from then until 99 % of them start, if all are of the default queue
    window: int | None = None  # seconds of a ``Rule(window=…)`` over which they would start in time; None: they do


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The fires of schedules in ``[since, until)``, by their definitions as they are now."""

    since: datetime  # in the zone; never in the past
    until: datetime  # excluded
    timezone: str  # whose clock divides it into spans
    by: str  # the spans: minute, hour or day
    spans: Sequence[ForecastSpan]  # all of the time, in order
    fires: int  # in all spans
    firing: int  # schedules that fire
    schedules: Sequence[ComingSchedule]  # those that fire first, by their first fire; ``listed`` at the most
    looked_at: int  # schedules that met the conditions
    paused: int  # of these, paused beyond ``until``: not counted
    busiest: BusiestInstant | None = None  # None: fewer than 100 fires are due at each instant
    uncounted: Sequence[
        str
    ] = ()  # names of schedules with more fires than can be counted, 100 at the most: ask for a shorter time
    frozen_until: datetime | None = None  # UTC: the tenant is frozen; what is due before starts afterwards
    cursor: str | None = None  # pass it to forecast the schedules after these; None: these were all
