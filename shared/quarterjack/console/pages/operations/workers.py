"""Workers: processes and Lambda environments, what each knows and has at hand."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall
from quarterjack.errors import InvalidInput
from quarterjack.sdk.views import Page
from quarterjack.state.worker_record import OWN_QUEUE
from quarterjack.web.urls import cursor_in_url, cursor_of_url

_ROWS = 50


def show(call: PageCall) -> Response:
    """The page. A filter that names nothing is shown with its fault."""
    given = {word: value for word in ("queue", "job") if (value := call.param(word)) is not None}
    stopped = call.param("stopped") == "yes"
    try:
        page, fault = _found(call, given, stopped=stopped), None
    except InvalidInput as problem:
        page, fault = Page(items=[]), problem
    more = cursor_in_url(page.cursor)
    here = {**given, "stopped": "yes" if stopped else None}
    return call.render(
        "operations/workers.html",
        200 if fault is None else 422,
        given=given,
        stopped=stopped,
        page=page,
        fault=fault,
        address=call.address("workers", **here, cursor=call.param("cursor")),
        more=None if more is None else call.address("workers", **here, cursor=more),
        now=call.now,
        own_queue=OWN_QUEUE,
    )


def _found(call: PageCall, given: dict[str, Any], *, stopped: bool) -> Page:
    cursor = cursor_of_url(call.param("cursor"))
    return call.scheduler.workers(**given, stopped=stopped, limit=_ROWS, cursor=cursor)
