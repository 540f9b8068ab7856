"""One run: its path, its attempts, why it is as it is, and what can be done to it."""

from __future__ import annotations

from datetime import datetime

from starlette.responses import Response

from minutehand.console.calls import PageCall, run_of
from minutehand.console.pages.runs.acts import RUN_ACTS
from minutehand.sdk.views import Run
from minutehand.web.urls import run_of_url


def show(call: PageCall) -> Response:
    """One run."""
    run_id = run_of_url(run_of(call))
    run = call.scheduler.get_run(run_id)
    acts = {word: act for word, act in RUN_ACTS.items() if run.state in act.states and run.skipped is None}
    return call.render(
        "runs/detail.html", run=run, path=_path(run), acts=acts, why=call.scheduler.why_run(run_id), now=call.now
    )


def _path(run: Run) -> list[tuple[str, datetime]]:
    """What happened when, in order."""
    moments = {
        "Created": run.created_at,
        "Due": run.due,
        "First start": run.started_at,
        "Last lease": run.leased_at,
        "Last heartbeat": run.last_heartbeat_at,
        "Ended": run.ended_at,
    }
    return sorted(((word, at) for word, at in moments.items() if at is not None), key=lambda one: one[1])
