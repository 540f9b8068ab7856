"""The first page: is anything wrong, what is held, what happened since yesterday."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall
from quarterjack.console.charts.hours import by_look
from quarterjack.console.pages.fires.asked import in_form, tomorrow
from quarterjack.console.pages.operations.doctor import last_checkup
from quarterjack.console.parts import part
from quarterjack.domain.schedule import ScheduleState
from quarterjack.sdk.history.day_stats import HourlyOutcomes
from quarterjack.sdk.schedule_views import Schedule
from quarterjack.sdk.views import DeadRun, Page

_LISTED, _SEARCHED = 10, 1_000  # schedules that are shown, and looked at: one read
_RUNNING, _DEAD, _FAILURES = (
    10,
    100,
    8,
)  # runs that are shown, runs that are looked at, and groups of them that are shown
_HOURS = 24
_WINDOW = (2, 4)  # hours of tomorrow, UTC: the maintenance window that is offered
_FORECAST = 100  # schedules whose fires are counted here; the calendar counts all


@dataclass(frozen=True)
class SameFailure:
    """Dead runs of one schedule, or one-offs of one job, with the same error."""

    schedule: str | None  # None: one-offs
    job: str
    error: str
    count: int
    latest: DeadRun


@dataclass(frozen=True)
class _Marked:
    """Schedules that need somebody, found by one read of the first ones by name."""

    failing: Sequence[Schedule]  # with an open incident, the last failure first
    paused: Sequence[Schedule]  # the last pause first
    searched_name: str | None  # up to which they were looked at; None: all
    is_empty: bool  # there is no schedule at all

    @classmethod
    def of(cls, page: Page) -> _Marked:
        failing = [one for one in page.items if one.incident is not None]
        paused = [one for one in page.items if one.state is ScheduleState.PAUSED]
        return cls(
            sorted(failing, key=lambda one: one.failed_at or one.updated_at, reverse=True),
            sorted(paused, key=lambda one: one.paused_at or one.updated_at, reverse=True),
            None if page.cursor is None else page.searched_name,
            not page.items and page.cursor is None,
        )


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
    window = [tomorrow(now, UTC, hour) for hour in _WINDOW]
    return call.render(
        "overview.html",
        now=now,
        ticker=part(scheduler.ticker),
        holds=part(scheduler.holds),
        hours=part(lambda: _Hours.of(scheduler.hourly_outcomes(_HOURS))),
        coming=part(lambda: scheduler.forecast(listed=0, limit=_FORECAST)),
        checkup=part(lambda: last_checkup(call)),
        window=[in_form(at) for at in window],
        marked=part(lambda: _Marked.of(scheduler.list_schedules(limit=_SEARCHED))),
        listed=_LISTED,
        dead=part(lambda: _same_failures(scheduler.list_dead(since=now - timedelta(days=1), limit=_DEAD).items)),
        queues=part(scheduler.queues),
        workers=part(lambda: scheduler.workers(limit=_DEAD).items),
        running=part(lambda: scheduler.list_running(limit=_RUNNING)),
    )


def _same_failures(runs: Sequence[DeadRun]) -> list[SameFailure]:
    """The runs, the newest first, grouped by what failed and how; the largest groups."""
    groups = defaultdict[tuple[str | None, str, str], list[DeadRun]](list)
    for run in runs:
        groups[run.schedule, run.job, run.error_type or run.reason or str(run.state)].append(run)
    found = [SameFailure(*what, len(same), same[0]) for what, same in groups.items()]
    return sorted(found, key=lambda one: one.count, reverse=True)[:_FAILURES]
