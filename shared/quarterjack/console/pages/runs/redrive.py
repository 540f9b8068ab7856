"""Acts on the dead runs that a filter finds: redrive and dismiss. Each is counted before it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall
from quarterjack.console.inputs import json_typed
from quarterjack.console.pages.runs.dead import dead_filter
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import InvalidInput, QuarterjackError
from quarterjack.web.urls import cursor_in_url, cursor_of_url

_SHOWN = 100  # runs of a preview
_READ = 1_000  # dead runs that a preview counts
_CHECKED = 20  # runs of which a preview says whether they can be repeated: each is read by itself


def preview_redrive(call: PageCall) -> Response:
    """How many dead runs a filter finds, and which."""
    call.require(Verb.REDRIVE, call.param("job"))
    return _preview(call, None)


def redrive(call: PageCall) -> Response:
    """Repeat them for as long as a request may take; the answer has a button that goes on."""
    form = call.form
    given, conditions = dead_filter(call, form)
    text = form.get("payload", "").strip()
    try:
        payload = {"payload": json_typed(text)} if text else {}
        with call.in_time() as stop:
            cursor = cursor_of_url(form.get("cursor") or None)
            done = call.acting().redrive(**conditions, **payload, cursor=cursor, stop=stop)
    except InvalidInput as problem:
        if problem.field.partition(".")[0] != "payload":
            raise
        return _preview(call, problem)
    return call.render(
        "runs/redriven.html",
        given=given,
        done=done,
        total=done.count + _whole(form.get("before")),
        wanted=_whole(form.get("wanted")),
        cursor=cursor_in_url(done.cursor),
        payload=text,
        reason=form.get("reason", ""),
    )


def preview_dismissal(call: PageCall) -> Response:
    """How many dead runs would leave the list, and which are the newest."""
    call.require(Verb.PURGE, call.param("job"))
    given, conditions = dead_filter(call, call.request.query_params)
    page = call.scheduler.list_dead(**conditions, include_redriven=True, limit=_READ)
    return call.render(
        "runs/dismiss.html",
        given=given,
        count=len(page.items),
        more=page.cursor is not None,
        shown=page.items[:_SHOWN],
        now=call.now,
    )


def dismiss(call: PageCall) -> Response:
    """Take them off the list for as long as a request may take; the answer has a button that goes on."""
    given, conditions = dead_filter(call, call.form)
    with call.in_time() as stop:
        count = call.acting().purge(**conditions, stop=stop)
        more = stop.is_set() and call.scheduler.purge(**conditions, dry_run=True, limit=1) > 0
    return call.render(
        "runs/dismissed.html",
        given=given,
        total=count + _whole(call.form.get("before")),
        more=more,
        reason=call.form.get("reason", ""),
    )


def _preview(call: PageCall, fault: InvalidInput | None) -> Response:
    words: Any = call.form or call.request.query_params
    given, conditions = dead_filter(call, words)
    page = call.scheduler.list_dead(**conditions, limit=_READ)
    return call.render(
        "runs/redrive.html",
        200 if fault is None else 422,
        given=given,
        count=len(page.items),
        more=page.cursor is not None,
        shown=page.items[:_SHOWN],
        checked=min(len(page.items), _CHECKED),
        failed=_not_repeated(call, page.items[:_CHECKED]),
        payload=words.get("payload", ""),
        fault=fault,
        now=call.now,
    )


def _not_repeated(call: PageCall, runs: Sequence[Any]) -> Mapping[str, str]:
    """Which of some runs cannot be repeated, and why: what carrying it out would say."""
    problems: dict[str, str] = {}
    for run in runs:
        try:
            call.scheduler.redrive(run.id, dry_run=True)
        except QuarterjackError as problem:
            problems[run.id] = str(problem)
    return problems


def _whole(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
