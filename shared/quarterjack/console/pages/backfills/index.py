"""The backfills of all schedules, and one of them with its runs."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, schedule_of
from quarterjack.console.pages.backfills.acts import BACKFILL_ACTS, backfill_of
from quarterjack.console.parts import part
from quarterjack.state.backfill import BackfillState
from quarterjack.web.urls import cursor_in_url, cursor_of_url

_ROWS, _RUNS = 50, 50
STATES = tuple(str(state) for state in BackfillState if state is not BackfillState.PLANNED)


def show(call: PageCall) -> Response:
    """The list, newest first."""
    state: Any = call.param("state")  # the SDK refuses another word
    page = call.scheduler.backfills(
        state=state,
        limit=_ROWS,
        cursor=cursor_of_url(call.param("cursor")),
    )
    more = cursor_in_url(page.cursor)
    return call.render(
        "backfills/index.html",
        state=state or "",
        states=STATES,
        page=page,
        more=None if more is None else call.address("backfills", state=state, cursor=more),
        now=call.now,
    )


def show_one(call: PageCall) -> Response:
    """One backfill: its progress, its runs, and what can be done to it."""
    name, identity = schedule_of(call), backfill_of(call)
    found = call.scheduler.get_backfill(name, identity)
    cursor = cursor_of_url(call.param("cursor"))
    runs = part(lambda: call.scheduler.backfill_runs(name, identity, limit=_RUNS, cursor=cursor))
    more = None if runs.value is None else cursor_in_url(runs.value.cursor)
    return call.render(
        "backfills/detail.html",
        backfill=found,
        runs=runs,
        acts={
            word: act
            for word, act in BACKFILL_ACTS.items()
            if found.state in act.states and call.may(act.verb, some=True)
        },
        more=None if more is None else call.of_schedule(name, "backfills", identity, cursor=more),
        now=call.now,
    )
