"""One schedule: definition, next fires, last runs, revisions, who changed it, and what can be done to it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from starlette.responses import Response

from minutehand.console.calls import PageCall, schedule_of
from minutehand.console.pages.schedules.index import BARS
from minutehand.errors import MinutehandError
from minutehand.timing.describe import rule_words

_DAYS = timedelta(days=7)  # of the audit


def show(call: PageCall) -> Response:
    """The page of a schedule."""
    name = schedule_of(call)
    found = call.scheduler.describe_schedule(name)
    runs = call.scheduler.list_runs(name, newest_first=True, upcoming=False, limit=BARS).items
    return call.render(
        "schedules/detail.html",
        found=found,
        schedule=found.schedule,
        in_words=_in_words(found.definition.rule, name),
        runs=runs,
        definition={**found.schedule.definition},
        done=call.param("done"),
        now=call.now,
    )


def _in_words(rule: Any, name: str) -> str | None:
    """None without the extra that puts cron into words."""
    try:
        return rule_words(rule, name)
    except MinutehandError:
        return None
