"""Schedules: the list that a search finds, each with its last runs as bars; and one schedule with everything about it.

The page of a schedule has its definition, next fires, runs, durations, revisions, audit entries, backfills, and the actions on it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.apply.fields import DATES
from quarterjack.apply.plan import payload_changes
from quarterjack.console.calls import PageCall, get, part, schedule_of
from quarterjack.console.pages.pipelines.tasks import graph_of
from quarterjack.console.pages.schedules.actions import ONE, ScheduleAction, many_for
from quarterjack.console.pages.schedules.search import conditions
from quarterjack.console.run_charts import Dot, DotChart
from quarterjack.console.words import duration, took
from quarterjack.domain.redaction import Redact
from quarterjack.domain.schedule import ScheduleState
from quarterjack.domain.times import from_ms
from quarterjack.errors import InvalidInput, QuarterjackError
from quarterjack.sdk.schedule_views import ScheduleDescription
from quarterjack.sdk.views import Page
from quarterjack.timing import PreviewRow, Rule, rows, rule_words

_ROWS, _BARS = 50, 30  # schedules of a page, and runs of each
_CHARTED = 100  # runs that the charts and the strip are drawn of: one query
_LISTED = 10  # of these in the table
_FIRES = 10
_ENTRIES, _DAYS = 20, timedelta(days=7)  # of the audit: a query a day
_BACKFILLS = 5  # the last ones
_DONE = {
    **{word: one.done for word, one in ONE.items()},
    "create": "Created: it is active, and fires as listed below.",
    "edit": "Changed: its next fires are those of the new revision.",
    "same": "Nothing was changed: the form has the schedule's present definition.",
}
DURATIONS = (  # words of a definition whose value is seconds
    *("timeout", "deadline", "catch_up_window", "expect_success_within"),
    *("alert_if_running_longer_than", "must_end_by"),
    *("base", "cap", "within", "window", "jitter"),
)
_APART = ("expression", "timezone", "payload", "description", "tags", "job", "tasks")  # shown by themselves


@dataclass(frozen=True)
class WordDifference:
    """A word that differs; None: it has no value, or its default."""

    word: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class RevisionRow:
    """A revision, with what it changed."""

    revision: Any
    differences: Sequence[WordDifference]


def show_schedules(call: PageCall) -> Response:
    """The page. A search that cannot be read is shown with its fault."""
    text = call.param("q")
    try:
        wanted, fault = conditions(text), None
        page = call.scheduler.list_schedules(**wanted, next_fires=1, limit=_ROWS, cursor=call.cursor)
    except InvalidInput as problem:
        wanted, fault, page = {}, problem, Page(items=[])
    return call.render(
        "schedules/index.html",
        q=text or "",
        fault=fault,
        wanted=wanted,
        page=page,
        ticked=many_for(call, None, some=True),
        matching=many_for(call, wanted.get("job"), some=False),
        runs=last_runs(call, [one.name for one in page.items]),
        more=call.further(page.cursor, "schedules", q=text),
        deleted=call.param("deleted"),
    )


def last_runs(call: PageCall, names: Sequence[str]) -> Mapping[str, Sequence[Any]]:
    """The last runs of some schedules, newest first; none if they cannot be read."""
    try:
        found = call.scheduler.last_runs(names, _BARS)
    except QuarterjackError:
        found = {}
    return {name: found.get(name, ()) for name in names}


def show_schedule(call: PageCall) -> Response:
    """The page of a schedule. A part that is refused leaves the others."""
    name = schedule_of(call)
    found = call.scheduler.describe_schedule(name)
    runs = part(lambda: call.scheduler.list_runs(name, newest_first=True, upcoming=False, limit=_CHARTED).items)
    return call.render(
        "schedules/detail.html",
        found=found,
        schedule=found.schedule,
        in_words=in_words(found.definition.rule, name),
        fires=next_rows(found, call.now),
        runs=runs,
        strip=(runs.value or ())[:_BARS],
        listed=(runs.value or ())[:_LISTED],
        charts=charts(runs.value or ()),
        graph=graph_of(found.schedule.definition.get("tasks")),
        facts=definition_facts(found.schedule.definition),
        revisions=[RevisionRow(one, differences(one.differences)) for one in found.revisions],
        changes=part(lambda: call.scheduler.audit(schedule=name, since=call.now - _DAYS, limit=_ENTRIES)),
        backfills=part(lambda: list(call.scheduler.list_backfills(name))[-_BACKFILLS:][::-1]),
        actions=_offered(call, found.schedule.state, found.schedule.job),
        done=_DONE.get(call.param("done") or ""),
    )


def _offered(call: PageCall, state: str, job: str) -> Mapping[str, ScheduleAction]:
    """The actions that make sense in a state and that the actor may do. The SDK decides."""
    if state == ScheduleState.DELETED:
        return {}
    unfit = {"pause"} if state == ScheduleState.PAUSED else {"resume"}
    if state != ScheduleState.ACTIVE:
        unfit.add("skip")
    return {word: one for word, one in ONE.items() if word not in unfit and call.may(one.verb, job)}


def next_rows(found: ScheduleDescription, now: datetime) -> Sequence[PreviewRow]:
    """The next fires, with the clock changes between them; none unless the schedule is active."""
    if found.schedule.state != ScheduleState.ACTIVE:
        return ()
    schedule, definition = found.schedule, found.definition
    key = f"{schedule.tenant}/{schedule.name}"
    return rows(definition.rule, after=now, count=_FIRES, key=key, anchor=definition.counts_from)


def charts(runs: Sequence[Any]) -> Sequence[DotChart]:
    """Charts of the durations and the lateness of runs. A chart needs two runs."""
    lasted = [Dot(run.due, time, str(run.state)) for run in runs if (time := took(run)) is not None]
    late = [Dot(run.due, max(run.lateness, timedelta(0)), str(run.state)) for run in runs if run.lateness is not None]
    return [chart for chart in (DotChart("Duration", lasted), DotChart("Lateness", late)) if len(chart.dots) > 1]


def in_words(rule: Rule, name: str) -> str | None:
    """None without the extra that puts cron into words."""
    try:
        return rule_words(rule, name)
    except QuarterjackError:
        return None


def definition_facts(words: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """The words of a definition that have no place of their own on the page. A nested word is named by its path: ``retry.base``."""
    return [(word, shown(word, value)) for word, value in _flat(words) if word.partition(".")[0] not in _APART]


def differences(pairs: Mapping[str, tuple[Any, Any]]) -> Sequence[WordDifference]:
    """The differences of pairs of values, as texts. A nested word is named by its path."""
    found = []
    for word, (before, after) in pairs.items():
        if word in ("retry", "flow", "rule", "tasks") or (word == "tags" and isinstance(before or after, Mapping)):
            old, new = dict(_flat({word: before})), dict(_flat({word: after}))
            below = {path: (old.get(path), new.get(path)) for path in dict.fromkeys((*new, *old))}
            found += [_difference(path, *pair) for path, pair in below.items() if pair[0] != pair[1]]
        elif word == "payload" and before != after:
            changes = payload_changes(before, after, Redact())
            found += [_difference(one.path, one.before, one.after) for one in changes]
        else:
            found.append(_difference(word, before, after))
    return found


def _difference(word: str, before: Any, after: Any) -> WordDifference:
    return WordDifference(word, *(None if value is None else shown(word, value) for value in (before, after)))


def shown(word: str, value: Any) -> str:
    """A value of a word as text."""
    name = word.rpartition(".")[2]
    if name in DATES and isinstance(value, int) and not isinstance(value, bool):
        return from_ms(value).isoformat()
    if name in DURATIONS and isinstance(value, (int, float)) and not word.startswith(("payload", "tags")):
        return duration(timedelta(seconds=value))
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _flat(words: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for word, value in words.items():
        if word != "payload" and isinstance(value, Mapping):
            found += [(f"{word}.{below}", inner) for below, inner in value.items()]
        elif value is not None:
            found.append((word, value))
    return found


ROUTES = (get("/schedules", show_schedules), get("/schedule/{name}", show_schedule))
