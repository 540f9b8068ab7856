"""One schedule: definition, next fires, runs, what they took, revisions, who did what, backfills, and what can be done to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, schedule_of
from quarterjack.console.charts.dots import Dot, DotChart
from quarterjack.console.pages.schedules.acts import ONE
from quarterjack.console.pages.schedules.definition import WordDifference, definition_facts, differences
from quarterjack.console.pages.schedules.index import BARS
from quarterjack.console.parts import part
from quarterjack.console.words import took
from quarterjack.domain.schedule import ScheduleState
from quarterjack.errors import QuarterjackError
from quarterjack.sdk.schedule_views import ScheduleDescription
from quarterjack.timing import PreviewRow, Rule, rows, rule_words

CHARTED = 100  # runs that the charts and the strip are drawn of: one query
LISTED = 10  # of these in the table
_FIRES = 10
_LINES, _DAYS = 20, timedelta(days=7)  # of the audit: a query a day
_BACKFILLS = 5  # the last ones
_DONE = {
    **{word: act.done for word, act in ONE.items()},
    "create": "Created: it is active, and fires as listed below.",
    "edit": "Changed: its next fires are those of the new revision.",
    "same": "Nothing was changed: the form said what the schedule has already.",
}


@dataclass(frozen=True)
class RevisionRow:
    """A revision, with what it changed."""

    revision: Any
    differences: Sequence[WordDifference]


def show(call: PageCall) -> Response:
    """The page of a schedule. A part that is refused leaves the others."""
    name = schedule_of(call)
    found = call.scheduler.describe_schedule(name)
    runs = part(lambda: call.scheduler.list_runs(name, newest_first=True, upcoming=False, limit=CHARTED).items)
    return call.render(
        "schedules/detail.html",
        found=found,
        schedule=found.schedule,
        in_words=in_words(found.definition.rule, name),
        fires=next_rows(found, call.now),
        runs=runs,
        strip=(runs.value or ())[:BARS],
        listed=(runs.value or ())[:LISTED],
        charts=charts(runs.value or ()),
        facts=definition_facts(found.schedule.definition),
        revisions=[RevisionRow(one, differences(one.differences)) for one in found.revisions],
        changes=part(lambda: call.scheduler.audit(schedule=name, since=call.now - _DAYS, limit=_LINES)),
        backfills=part(lambda: list(call.scheduler.list_backfills(name))[-_BACKFILLS:][::-1]),
        acts=_acts_for(call, found.schedule.state, found.schedule.job),
        done=_DONE.get(call.param("done") or ""),
        now=call.now,
    )


def offered(state: str) -> Mapping[str, Any]:
    """The acts that make sense in a state; whether they may be done, the SDK says."""
    if state == ScheduleState.DELETED:
        return {}
    paused = state == ScheduleState.PAUSED
    unfit = {"pause"} if paused else {"resume"}
    if state != ScheduleState.ACTIVE:
        unfit.add("skip")
    return {word: act for word, act in ONE.items() if word not in unfit}


def _acts_for(call: PageCall, state: str, job: str) -> Mapping[str, Any]:
    """Those that the actor may do."""
    return {word: act for word, act in offered(state).items() if call.may(act.verb, job)}


def next_rows(found: ScheduleDescription, now: datetime) -> Sequence[PreviewRow]:
    """The next fires, with the clock changes between them; none unless the schedule is active."""
    if found.schedule.state != ScheduleState.ACTIVE:
        return ()
    schedule, definition = found.schedule, found.definition
    key = f"{schedule.tenant}/{schedule.name}"
    return rows(definition.rule, after=now, count=_FIRES, key=key, anchor=definition.counts_from)


def charts(runs: Sequence[Any]) -> Sequence[DotChart]:
    """What the runs took and how late they began, as far as they tell; a chart of fewer than two runs says nothing."""
    lasted = [Dot(run.due, time, str(run.state)) for run in runs if (time := took(run)) is not None]
    late = [Dot(run.due, max(run.lateness, timedelta(0)), str(run.state)) for run in runs if run.lateness is not None]
    return [chart for chart in (DotChart("Duration", lasted), DotChart("Lateness", late)) if len(chart.dots) > 1]


def in_words(rule: Rule, name: str) -> str | None:
    """None without the extra that puts cron into words."""
    try:
        return rule_words(rule, name)
    except QuarterjackError:
        return None
