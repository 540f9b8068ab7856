"""The first page: is anything wrong, what is held, what happened since yesterday."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from minutehand.console.calls import PageCall
from minutehand.console.charts.hours import by_look
from minutehand.console.pages.operations.doctor import last_checkup
from minutehand.console.parts import part
from minutehand.sdk.history.day_stats import HourlyOutcomes
from minutehand.web.urls import cursor_in_url

_FAILING, _DEAD, _JOBS = 10, 100, 8  # rows that are shown, runs that are looked at, and jobs that are shown
_HOURS = 24
_FORECAST = 100  # schedules whose fires are counted here; the calendar counts all


@dataclass(frozen=True)
class ErrorCount:
    """Dead runs with the same error."""

    error: str
    job: str
    count: int


@dataclass(frozen=True)
class _Hours:
    """What became of the runs of the last hour, and of the last day."""

    hours: Sequence[Any]  # the latest first
    recent: Mapping[str, int]  # by what their state means
    recent_is_whole: bool
    day: Mapping[str, int]  # likewise
    day_is_whole: bool

    @classmethod
    def of(cls, found: HourlyOutcomes) -> _Hours:
        day = Counter[str]()
        for hour in found.hours:
            day.update(by_look(hour.outcomes))
        is_whole = all(hour.is_whole for hour in found.hours)
        return cls(found.hours, by_look(found.last_hour), found.last_hour_is_whole, day, is_whole)


def show(call: PageCall) -> Response:
    """The overview. A question that is refused, or that a table does not answer, leaves the others."""
    scheduler, now = call.scheduler, call.now
    failing = part(lambda: scheduler.list_schedules(failing=True, limit=_FAILING))
    return call.render(
        "overview.html",
        now=now,
        ticker=part(scheduler.ticker),
        holds=part(scheduler.holds),
        hours=part(lambda: _Hours.of(scheduler.hourly_outcomes(_HOURS))),
        coming=part(lambda: scheduler.forecast(listed=0, limit=_FORECAST)),
        checkup=part(lambda: last_checkup(call)),
        failing=failing,
        failing_on=None if failing.problem else cursor_in_url(failing.value.cursor),
        dead=part(lambda: _by_error(scheduler.list_dead(since=now - timedelta(days=1), limit=_DEAD).items)),
        queues=part(scheduler.queues),
        workers=part(lambda: scheduler.workers(limit=_DEAD).items),
        running=part(lambda: scheduler.list_running(limit=_FAILING)),
        known=part(lambda: scheduler.list_schedules(limit=1).items),
    )


def _by_error(runs: Sequence[Any]) -> list[ErrorCount]:
    counts = Counter((run.error_type or run.reason or str(run.state), run.job) for run in runs)
    return [ErrorCount(error, job, count) for (error, job), count in counts.most_common(_JOBS)]
