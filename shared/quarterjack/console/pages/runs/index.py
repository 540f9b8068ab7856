"""The history of runs with its filters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall
from quarterjack.console.inputs import time_typed
from quarterjack.domain.history.entry import RunKind
from quarterjack.domain.run import RunState
from quarterjack.errors import InvalidInput
from quarterjack.sdk.views import Page
from quarterjack.web.fields import tag_of
from quarterjack.web.urls import cursor_in_url, cursor_of_url

_ROWS = 50
_INSTANT = timedelta(milliseconds=1)
_FAILED = "failed"  # a state in the form: what failed for good
_WORDS = ("state", "kind", "job", "schedule", "prefix", "tag", "error_type", "since", "until")


def show(call: PageCall) -> Response:
    """The runs that all filters find, newest first."""
    given = {word: value for word in _WORDS if (value := call.param(word)) is not None}
    try:
        page, fault = _found(call, given), None
    except InvalidInput as problem:
        page, fault = Page(items=[]), problem
    more = cursor_in_url(page.cursor)
    return call.render(
        "runs/index.html",
        200 if fault is None else 422,
        given=given,
        states={_FAILED: "failed for good", **{str(one): str(one).lower() for one in RunState}},
        kinds=[str(one) for one in RunKind],
        page=page,
        fault=fault,
        first=call.param("cursor") is None,
        here_now=call.address("runs", **given),
        more=None if more is None else call.address("runs", **given, cursor=more),
        now=call.now,
    )


def _found(call: PageCall, given: dict[str, str]) -> Page:
    """A page. With a schedule and times alone it is of the ledger, by due time: complete, and one query."""
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
    return call.scheduler.list_runs(name, **filters, limit=_ROWS, cursor=cursor_of_url(call.param("cursor")))
