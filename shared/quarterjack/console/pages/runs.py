"""Runs: the history with its filters, one run with its path and attempts, its transitions and its log lines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, get, part, run_of
from quarterjack.console.forms import time_typed
from quarterjack.console.pages.answers import signal_asked
from quarterjack.console.pages.pipelines.tasks import tasks_of, waits_for
from quarterjack.console.pages.run_actions import RUN_ACTIONS, actions_of, payload_of
from quarterjack.domain.history.entry import RunKind
from quarterjack.domain.run import FAILED, TERMINAL, RunState
from quarterjack.errors import InvalidInput
from quarterjack.sdk.history.views import LogPage
from quarterjack.sdk.views import DeadRun, Page, Run
from quarterjack.web.fields import tag_of
from quarterjack.web.urls import cursor_of_url, run_in_url

_ROWS = 50  # runs of a page
_LOG_LINES = 200  # of a page
_SETTLES = timedelta(minutes=2)  # after the end of a run further lines may come
_INSTANT = timedelta(milliseconds=1)
_FAILED = "failed"  # the state in the form that stands for DEAD, LOST and EXPIRED
_WORDS = ("state", "kind", "job", "schedule", "prefix", "tag", "error_type", "since", "until")


@dataclass(frozen=True)
class PathEntry:
    """Something that happened to a run."""

    at: datetime
    title: str
    more: str = ""


def show_runs(call: PageCall) -> Response:
    """The runs that all filters find, newest first."""
    given = call.params(*_WORDS)
    try:
        page, fault = _found(call, given), None
    except InvalidInput as problem:
        page, fault = Page(items=[]), problem
    return call.render(
        "runs/index.html",
        given=given,
        states={_FAILED: "failed for good", **{str(one): str(one).lower() for one in RunState}},
        kinds=[str(one) for one in RunKind],
        page=page,
        fault=fault,
        first=call.param("cursor") is None,
        here_now=call.address("runs", **given),
        more=call.further(page.cursor, "runs", **given),
    )


def _found(call: PageCall, given: dict[str, str]) -> Page:
    """A page. If only a schedule and times are given, it comes from the ledger by due time: complete, and one query."""
    filters: dict[str, Any] = dict(given)
    for word in ("since", "until"):
        if word in filters:
            filters[word] = time_typed(filters[word], word)
    if "tag" in filters:
        filters["tag"] = tag_of(filters["tag"])
    if filters.get("state") == _FAILED:
        filters["failed"] = bool(filters.pop("state"))
    name = filters.pop("schedule", None)
    if name is not None and not set(filters) - {"since", "until"}:
        since = filters.get("since")
        after = None if since is None else since - _INSTANT
        filters = {"after": after, "before": filters.get("until"), "newest_first": True, "upcoming": False}
    return call.scheduler.list_runs(name, **filters, limit=_ROWS, cursor=call.cursor)


def show_run(call: PageCall) -> Response:
    """One run."""
    run = call.scheduler.get_run(run_of(call))
    done = call.param("done") or ""
    return call.render(
        "runs/detail.html",
        run=run,
        path=path_of(run),
        actions=actions_of(call, run),
        signal=signal_asked(call, run),
        tasks=tasks_of(call, run),
        waits_for=waits_for,
        payload=payload_of(call, run),
        why=part(lambda: call.scheduler.why_run(run.id)),
        dead=part(lambda: _dead_run(call, run)),
        is_over=run.state in TERMINAL,
        failed=run.state in FAILED,
        done=RUN_ACTIONS.get(done),
    )


def show_transitions(call: PageCall) -> Response:
    """Every transition of a run, from the archive: a page of its own, because it reads the hours of the run's life."""
    run = call.scheduler.get_run(run_of(call))
    found = part(lambda: call.scheduler.transitions(run.id))
    return call.render("runs/transitions.html", run=run, found=found)


def _dead_run(call: PageCall, run: Run) -> DeadRun | None:
    """The run's entry in the list of dead runs, also if it was redriven; None: it has none."""
    if run.state not in FAILED or run.ended_at is None:
        return None
    found = call.scheduler.list_dead(
        job=run.job,
        schedule=run.schedule,
        since=run.ended_at,
        until=run.ended_at + _INSTANT,
        include_redriven=True,
    )
    return next((one for one in found.items if one.id == run.id), None)


def path_of(run: Run) -> list[PathEntry]:
    """The events of a run in order of time."""
    failed = {one.number for one in run.failed_attempts}
    is_parked = run.state is RunState.PARKED
    attempt = run.attempt + (is_parked or run.state is RunState.CONTINUED)  # a slice that has ended does not count
    moments = [
        (run.created_at, "Created", str(run.kind)),
        (run.due, "Due", ""),
        (run.not_before if run.not_before > run.due and not is_parked else None, "Next attempt not before", ""),
        (run.published_at, "Message sent", ""),
        (None if attempt in failed else run.leased_at, f"Attempt {attempt} leased", run.worker or ""),
        (run.parked_at, "Parked", run.reason or ""),
        (run.wake_at, "Its wait ends, at the latest", ""),
        (run.last_heartbeat_at, "Last heartbeat", run.stage or ""),
    ]
    for one in run.failed_attempts:
        moments.append((one.started_at, f"Attempt {one.number} leased", one.worker))
        then = f"next attempt {one.next_attempt_at:%H:%M:%S} UTC" if one.next_attempt_at else "no further attempt"
        moments.append((one.ended_at, f"Attempt {one.number} failed", f"{one.error_type}, {then}"))
    moments.append((run.ended_at, str(run.state).capitalize(), run.reason or ""))
    return sorted((PathEntry(at, title, more) for at, title, more in moments if at is not None), key=lambda one: one.at)


def show_logs(call: PageCall) -> Response:
    """The log lines, oldest first. Until the run has ended, the last page is read again every few seconds."""
    run_id, cursor = run_of(call), call.param("cursor")
    run = call.scheduler.get_run(run_id)
    found = part(lambda: call.scheduler.run_logs(run_id, limit=_LOG_LINES, cursor=cursor_of_url(cursor)))
    page: LogPage | None = found.value
    more = None if page is None else call.further(page.cursor, "run", run_in_url(run_id), "logs")
    ended = run.ended_at if run.state in TERMINAL else None
    return call.render(
        "runs/logs.html",
        run=run,
        page=page,
        problem=found.problem,
        itself=call.of_run(run_id, "logs", cursor=cursor),
        moves=page is not None and more is None and (ended is None or call.now - ended < _SETTLES),
        first=call.of_run(run_id, "logs") if cursor else None,
        more=more,
    )


ROUTES = (
    get("/runs", show_runs),
    get("/run/{run}", show_run),
    get("/run/{run}/logs", show_logs),
    get("/run/{run}/transitions", show_transitions),
)
