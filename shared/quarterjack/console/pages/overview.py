"""The overview: problems, holds, and the outcomes since yesterday."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, get, part
from quarterjack.console.count_charts import by_look
from quarterjack.console.forms import in_form
from quarterjack.console.pages.fires.firing import tomorrow
from quarterjack.console.pages.machinery import last_checkup
from quarterjack.console.words import BAD, GOOD
from quarterjack.domain.schedule import ScheduleState
from quarterjack.sdk.history.day_stats import HourlyOutcomes
from quarterjack.sdk.schedule_views import Schedule
from quarterjack.sdk.views import DeadRun, Page

_LISTED, _SEARCHED = 10, 1_000  # schedules that are shown, and read: one query
_RUNNING, _DEAD, _FAILURES = (
    10,
    100,
    8,
)  # running runs that are shown, dead runs that are read, and groups of them that are shown
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
    searched_name: str | None  # name up to which they were read; None: all
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
class _Outcomes:
    """Counts of ended runs, which may be incomplete."""

    counts: Mapping[str, int]
    is_whole: bool  # all are counted
    failed_is_whole: bool  # all that failed for good are

    @property
    def failed(self) -> str | None:
        """How many failed for good, in words; None: none was counted, and there may be some."""
        return _said(self.counts[BAD], is_whole=self.failed_is_whole)

    @property
    def succeeded(self) -> str | None:
        """How many succeeded, likewise."""
        return _said(self.counts[GOOD], is_whole=self.is_whole)


def _said(count: int, *, is_whole: bool) -> str | None:
    if is_whole:
        return f"{count:,}"
    return f"at least {count:,}" if count else None


@dataclass(frozen=True)
class _Hours:
    """Outcomes of the last hour, and of the last day."""

    hours: Sequence[Any]  # the latest first
    recent: _Outcomes
    day: _Outcomes

    @classmethod
    def of(cls, found: HourlyOutcomes) -> _Hours:
        day = Counter[str]({GOOD: 0, BAD: 0})
        for hour in found.hours:
            day.update(by_look(hour.outcomes))
        whole, failed_whole = (
            all(each) for each in zip(*((h.is_whole, h.failed_is_whole) for h in found.hours), strict=True)
        )
        recent = _Outcomes(by_look(found.last_hour), found.last_hour_is_whole, found.last_hour_failed_is_whole)
        return cls(found.hours, recent, _Outcomes(day, whole, failed_whole))


@dataclass(frozen=True)
class _Dead:
    """Runs that failed for good in the last day and were not repeated, grouped."""

    groups: Sequence[SameFailure]  # the largest
    looked_at: int  # runs
    more: bool  # there are, or may be, more runs
    searched_to: datetime | None  # how far back; None: the whole day

    @classmethod
    def of(cls, page: Page) -> _Dead:
        return cls(_same_failures(page.items), len(page.items), page.cursor is not None, page.searched_to)


def show(call: PageCall) -> Response:
    """The overview. A question that is refused, or that a table does not answer, leaves the others."""
    scheduler, now = call.scheduler, call.now
    window = [tomorrow(now, UTC, hour) for hour in _WINDOW]
    return call.render(
        "overview.html",
        ticker=part(scheduler.ticker),
        holds=part(scheduler.holds),
        hours=part(lambda: _Hours.of(scheduler.hourly_outcomes(_HOURS))),
        coming=part(lambda: scheduler.forecast(listed=0, limit=_FORECAST)),
        checkup=part(lambda: last_checkup(call)),
        window=[in_form(at) for at in window],
        marked=part(lambda: _Marked.of(scheduler.list_schedules(limit=_SEARCHED))),
        listed=_LISTED,
        dead=part(lambda: _Dead.of(scheduler.list_dead(since=now - timedelta(days=1), limit=_DEAD))),
        queues=part(scheduler.queues),
        workers=part(lambda: scheduler.workers(limit=_DEAD)),
        running=part(lambda: scheduler.list_running(limit=_RUNNING)),
    )


def _same_failures(runs: Sequence[DeadRun]) -> list[SameFailure]:
    """The largest groups of runs with the same schedule, job and error. ``runs``: newest first."""
    groups = defaultdict[tuple[str | None, str, str], list[DeadRun]](list)
    for run in runs:
        groups[run.schedule, run.job, run.error_type or run.reason or str(run.state)].append(run)
    found = [SameFailure(*what, len(same), same[0]) for what, same in groups.items()]
    return sorted(found, key=lambda one: one.count, reverse=True)[:_FAILURES]


ROUTES = (get("/", show),)
