"""The first page: is anything wrong, what is held, what happened since yesterday."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from minutehand.console.calls import PageCall
from minutehand.console.parts import part

_FAILING, _DEAD, _JOBS = 10, 100, 8  # rows that are shown, runs that are looked at, and jobs that are shown


@dataclass(frozen=True)
class ErrorCount:
    """Dead runs with the same error."""

    error: str
    job: str
    count: int


def show(call: PageCall) -> Response:
    """The overview. A question that is refused, or that a table does not answer, leaves the others."""
    scheduler, now = call.scheduler, call.now
    return call.render(
        "overview.html",
        now=now,
        frozen=part(scheduler.frozen),
        failing=part(lambda: scheduler.list_schedules(failing=True, limit=_FAILING)),
        dead=part(lambda: _by_error(scheduler.list_dead(since=now - timedelta(days=1), limit=_DEAD).items)),
        days=part(lambda: _outcomes(scheduler.stats(since=now - timedelta(days=1), until=now))),
        queues=part(scheduler.queues),
        workers=part(lambda: scheduler.workers(limit=_DEAD).items),
        running=part(lambda: scheduler.list_running(limit=_FAILING)),
        known=part(lambda: scheduler.list_schedules(limit=1).items),
    )


def _by_error(runs: Sequence[Any]) -> list[ErrorCount]:
    counts = Counter((run.error_type or run.reason or str(run.state), run.job) for run in runs)
    return [ErrorCount(error, job, count) for (error, job), count in counts.most_common(_JOBS)]


def _outcomes(days: Sequence[Any]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for day in days:
        found.update(day.outcomes)
    return dict(found)
