"""The runs that failed for good and were not repeated."""

from __future__ import annotations

from starlette.responses import Response

from minutehand.console.calls import PageCall
from minutehand.web.urls import cursor_in_url, cursor_of_url

_ROWS = 50
_WORDS = ("job", "schedule", "error_type")


def show(call: PageCall) -> Response:
    """The list of dead runs, newest first."""
    given = {word: value for word in _WORDS if (value := call.param(word)) is not None}
    page = call.scheduler.list_dead(**given, limit=_ROWS, cursor=cursor_of_url(call.param("cursor")))
    more = cursor_in_url(page.cursor)
    return call.render(
        "dead.html",
        given=given,
        page=page,
        more=None if more is None else call.address("dead", **given, cursor=more),
        now=call.now,
    )
