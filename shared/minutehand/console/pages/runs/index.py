"""The history of runs with its filters."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from minutehand.console.calls import PageCall
from minutehand.errors import InvalidInput
from minutehand.sdk.views import Page
from minutehand.web.fields import tag_of
from minutehand.web.urls import cursor_in_url, cursor_of_url

_ROWS = 50
STATES = (
    "QUEUED",
    "RUNNING",
    "RETRYING",
    "CONTINUED",
    "SUCCEEDED",
    "DEAD",
    "LOST",
    "EXPIRED",
    "CANCELLED",
    "SKIPPED",
    "SUPERSEDED",
    "SHADOWED",
)
_WORDS = ("state", "job", "prefix", "tag", "error_type")


def show(call: PageCall) -> Response:
    """The runs that all filters find, newest first."""
    given = {word: value for word in _WORDS if (value := call.param(word)) is not None}
    name = call.param("schedule")
    try:
        page, fault = _found(call, name, given), None
    except InvalidInput as problem:
        page, fault = Page(items=[]), problem
    more = cursor_in_url(page.cursor)
    return call.render(
        "runs/index.html",
        200 if fault is None else 422,
        given={**given, "schedule": name or ""},
        states=STATES,
        page=page,
        fault=fault,
        more=None if more is None else call.address("runs", **given, schedule=name, cursor=more),
        now=call.now,
    )


def _found(call: PageCall, name: str | None, given: dict[str, str]) -> Page:
    filters: dict[str, Any] = dict(given)
    if "tag" in filters:
        filters["tag"] = tag_of(filters["tag"])
    alone: dict[str, Any] = {"newest_first": True, "upcoming": False} if name is not None and not filters else {}
    return call.scheduler.list_runs(name, **filters, **alone, limit=_ROWS, cursor=cursor_of_url(call.param("cursor")))
