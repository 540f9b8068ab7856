"""Statistics of a day and of an hour, as the SDK returns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from quarterjack.domain.times import DAY, HOUR, from_ms
from quarterjack.history.statistics import CountedHours
from quarterjack.state.history.stats import Tally, quantile


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """Times that 50, 95 and 99 % of the runs did not exceed, to about 9 %."""

    p50: timedelta  # the median
    p95: timedelta
    p99: timedelta

    def __str__(self) -> str:
        return " / ".join(f"{one.total_seconds():.3g}" for one in (self.p50, self.p95, self.p99))


@dataclass(frozen=True, kw_only=True)
class DayStats:
    """The runs of a job, of a schedule, or of an application version, that ended on one day in UTC."""

    day: date  # in UTC
    job: str | None = None  # name of the job
    schedule: str | None = None  # or of the schedule
    version: str | None = None  # or of the application version that the runs were assigned to
    runs: int  # that ended; the row of a gap counts for its missed fires
    outcomes: Mapping[str, int]  # runs by state
    attempts: int  # begun
    failed_attempts: int  # of these: failed, timed out, or their worker vanished; not the last one of a cancelled run
    lateness: Quantiles | None  # from due to the first start; None: none has started
    duration: Quantiles | None  # from the first start to the end
    errors: Mapping[str, int]  # runs by the class of their last failure; "other": all but the first twenty


@dataclass(frozen=True, kw_only=True)
class HourOutcomes:
    """What became of the runs that ended in one hour."""

    hour: datetime  # UTC: its beginning
    outcomes: Mapping[str, int]  # runs by state
    is_whole: bool = True  # False: more ended in it than were read
    failed_is_whole: bool = True  # False: more failed for good (DEAD, LOST, EXPIRED) than were read


@dataclass(frozen=True, kw_only=True)
class HourlyOutcomes:
    """What became of the runs of the latest hours, of all schedules and one-offs."""

    hours: Sequence[HourOutcomes]  # the latest first; the first one is not over
    last_hour: Mapping[str, int]  # runs by state that ended within the last 60 minutes
    last_hour_is_whole: bool  # False: more ended in them than were read
    last_hour_failed_is_whole: bool = True  # False: more failed for good than were read


def hourly_outcomes(found: CountedHours, now: int, hours: int) -> HourlyOutcomes:
    last = now // HOUR
    return HourlyOutcomes(
        hours=[
            HourOutcomes(
                hour=from_ms(hour * HOUR),
                outcomes=dict(sorted(found.hours.get(hour, {}).items())),
                is_whole=hour not in found.partial,
                failed_is_whole=hour not in found.partial or hour * HOUR > found.failed_since,
            )
            for hour in range(last, last - hours, -1)
        ],
        last_hour=dict(sorted(found.recent.items())),
        last_hour_is_whole=found.recent_is_whole,
        last_hour_failed_is_whole=found.recent_is_whole or now - HOUR >= found.failed_since,
    )


def day_stats(day: int, by: str, name: str, tally: Tally) -> DayStats:
    return DayStats(
        day=from_ms(day * DAY).date(),
        job=name if by == "job" else None,
        schedule=name if by == "schedule" else None,
        version=name if by == "version" else None,
        runs=tally.runs,
        outcomes=dict(sorted(tally.outcomes.items())),
        attempts=tally.attempts,
        failed_attempts=tally.failed,
        lateness=_quantiles(tally.lateness),
        duration=_quantiles(tally.duration),
        errors=dict(sorted(tally.errors.items(), key=lambda each: (-each[1], each[0]))),
    )


def _quantiles(steps: Mapping[int, int]) -> Quantiles | None:
    found = [quantile(steps, share) for share in (0.5, 0.95, 0.99)]
    times = [timedelta(milliseconds=round(one, 3)) for one in found if one is not None]
    return Quantiles(p50=times[0], p95=times[1], p99=times[2]) if len(times) == 3 else None
