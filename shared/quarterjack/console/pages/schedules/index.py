"""The schedules that a search finds, each with its last runs as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall
from quarterjack.console.pages.schedules.acts import many_for
from quarterjack.console.pages.schedules.search import conditions
from quarterjack.errors import InvalidInput, QuarterjackError
from quarterjack.sdk.views import Page
from quarterjack.web.urls import cursor_in_url, cursor_of_url

ROWS, BARS = 50, 30  # schedules of a page, and runs of each


def show(call: PageCall) -> Response:
    """The page. A search that cannot be read is shown with its fault."""
    text = call.param("q")
    try:
        wanted, fault = conditions(text), None
        page = call.scheduler.list_schedules(
            **wanted, next_fires=1, limit=ROWS, cursor=cursor_of_url(call.param("cursor"))
        )
    except InvalidInput as problem:
        wanted, fault, page = {}, problem, Page(items=[])
    return call.render(
        "schedules/index.html",
        200 if fault is None else 422,
        q=text or "",
        fault=fault,
        wanted=wanted,
        page=page,
        ticked=many_for(call, None, some=True),
        matching=many_for(call, wanted.get("job"), some=False),
        runs=last_runs(call, [one.name for one in page.items]),
        more=None if page.cursor is None else call.address("schedules", q=text, cursor=cursor_in_url(page.cursor)),
        deleted=call.param("deleted"),
        now=call.now,
    )


def last_runs(call: PageCall, names: Sequence[str]) -> Mapping[str, Sequence[Any]]:
    """The last runs of some schedules, newest first. The list is worth showing without them."""
    try:
        found = call.scheduler.last_runs(names, BARS)
    except QuarterjackError:
        found = {}
    return {name: found.get(name, ()) for name in names}
