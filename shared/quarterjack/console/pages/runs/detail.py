"""One run: its path, its attempts, why it is as it is, and what can be done to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.responses import Response

from quarterjack.console.calls import PageCall, run_of
from quarterjack.console.pages.runs.acts import RUN_ACTS, acts_of
from quarterjack.console.pages.runs.payload import payload_of
from quarterjack.console.parts import part
from quarterjack.domain.run import FAILED, TERMINAL
from quarterjack.sdk.views import DeadRun, Run
from quarterjack.web.urls import run_of_url

_INSTANT = timedelta(milliseconds=1)


@dataclass(frozen=True)
class PathEntry:
    """Something that happened to a run."""

    at: datetime
    title: str
    more: str = ""


def show(call: PageCall) -> Response:
    """One run."""
    run = call.scheduler.get_run(run_of_url(run_of(call)))
    done = call.param("done") or ""
    return call.render(
        "runs/detail.html",
        run=run,
        path=path_of(run),
        acts=acts_of(call, run),
        payload=payload_of(call, run),
        why=part(lambda: call.scheduler.why_run(run.id)),
        line=part(lambda: _dead_line(call, run)),
        is_over=run.state in TERMINAL,
        failed=run.state in FAILED,
        done=RUN_ACTS.get(done),
        now=call.now,
    )


def show_transitions(call: PageCall) -> Response:
    """Every transition of a run, from the archive: a page of its own, because it reads the hours of the run's life."""
    run = call.scheduler.get_run(run_of_url(run_of(call)))
    found = part(lambda: call.scheduler.transitions(run.id))
    return call.render("runs/transitions.html", run=run, found=found, now=call.now)


def _dead_line(call: PageCall, run: Run) -> DeadRun | None:
    """The line of a run on the list of dead runs, also if it was repeated; None: it has none."""
    if run.state not in FAILED or run.ended_at is None:
        return None
    page = call.scheduler.list_dead(
        job=run.job,
        schedule=run.schedule,
        since=run.ended_at,
        until=run.ended_at + _INSTANT,
        include_redriven=True,
    )
    lines: Sequence[DeadRun] = page.items
    return next((one for one in lines if one.id == run.id), None)


def path_of(run: Run) -> list[PathEntry]:
    """What happened when, in order."""
    failed = {one.number for one in run.failed_attempts}
    moments = [
        (run.created_at, "Created", str(run.kind)),
        (run.due, "Due", ""),
        (run.not_before if run.not_before > run.due else None, "Next attempt not before", ""),
        (run.published_at, "Message sent", ""),
        (None if run.attempt in failed else run.leased_at, f"Attempt {run.attempt} leased", run.worker or ""),
        (run.last_heartbeat_at, "Last heartbeat", run.stage or ""),
    ]
    for one in run.failed_attempts:
        moments.append((one.started_at, f"Attempt {one.number} leased", one.worker))
        then = f"next attempt {one.next_attempt_at:%H:%M:%S} UTC" if one.next_attempt_at else "no further attempt"
        moments.append((one.ended_at, f"Attempt {one.number} failed", f"{one.error_type}, {then}"))
    moments.append((run.ended_at, str(run.state).capitalize(), run.reason or ""))
    return sorted((PathEntry(at, title, more) for at, title, more in moments if at is not None), key=lambda one: one.at)
