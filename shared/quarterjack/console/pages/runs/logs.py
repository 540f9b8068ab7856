"""The log lines of a run, a page of its own and a part of the run's page."""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import Response

from quarterjack.console.calls import PageCall, run_of
from quarterjack.console.parts import part
from quarterjack.domain.run import TERMINAL
from quarterjack.sdk.history.log_views import LogPage
from quarterjack.web.urls import cursor_in_url, cursor_of_url, run_of_url

_ROWS = 200
_SETTLES = timedelta(minutes=2)  # after the end of a run further lines may come


def show(call: PageCall) -> Response:
    """The lines, oldest first. While the run goes on, the last page is asked for again and again."""
    run_id = run_of_url(run_of(call))
    run, cursor = call.scheduler.get_run(run_id), call.param("cursor")
    found = part(lambda: call.scheduler.run_logs(run_id, limit=_ROWS, cursor=cursor_of_url(cursor)))
    page: LogPage | None = found.value
    more = None if page is None else cursor_in_url(page.cursor)
    ended = run.ended_at if run.state in TERMINAL else None
    return call.render(
        "runs/logs.html",
        run=run,
        page=page,
        problem=found.problem,
        itself=call.address("run", run_of(call), "logs", cursor=cursor),
        moves=page is not None and more is None and (ended is None or call.now - ended < _SETTLES),
        first=call.address("run", run_of(call), "logs") if cursor else None,
        more=None if more is None else call.address("run", run_of(call), "logs", cursor=more),
    )
