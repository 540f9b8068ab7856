"""Dead runs that were not repeated, and the actions on all that a filter finds: redrive and dismiss. Each is counted before it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, get, post
from quarterjack.console.forms import chosen, json_typed, number_typed, time_typed
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import InvalidInput, QuarterjackError
from quarterjack.sdk.views import DeadRun
from quarterjack.web.urls import cursor_in_url, cursor_of_url

_ROWS, _ERRORS = 50, 8
_WORDS = ("job", "schedule", "error_type")
YESTERDAY = "yesterday"
SPANS = {
    "1": "the last 24 hours",
    YESTERDAY: "yesterday (UTC)",
    "7": "the last 7 days",
    "30": "the last 30 days",
}  # by days
_SHOWN = 100  # runs of a preview
_READ = 1_000  # dead runs that a preview counts
_CHECKED = 20  # runs of which a preview says whether they can be repeated: each is read by itself


def show(call: PageCall) -> Response:
    """The list of dead runs, newest first."""
    given, conditions = _filter(call, call.request.query_params)
    page = call.scheduler.list_dead(**conditions, limit=_ROWS, cursor=call.cursor)
    errors, more = _by_error(page.items, given), call.further(page.cursor, "dead", **given)
    return call.render("runs/dead.html", errors=errors, given=given, spans=SPANS, page=page, more=more)


def _by_error(items: Sequence[DeadRun], given: Mapping[str, str]) -> list[dict[str, Any]]:
    """How often a job failed by an error, with the filter for each; empty if there is only one such pair."""
    counts = Counter((one.error_type, one.job) for one in items)
    if len(counts) < 2:
        return []
    return [
        {"error": error, "job": job, "count": count, "given": {**given, "job": job, "error_type": error}}
        for (error, job), count in counts.most_common(_ERRORS)
    ]


def _filter(call: PageCall, words: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    """The filter as words of an address, and as keywords of the SDK.

    Its times are in the address, so that the next page and the action are about the same runs.
    """
    given = {word: value for word in _WORDS if (value := words.get(word, "").strip())}
    days = chosen(words.get("days") or "1", SPANS, "days")
    times = {word: value for word in ("since", "until") if (value := words.get(word, "").strip())}
    if not times:
        times = {word: at.isoformat() for word, at in _span(days, call.now).items()}
    return {**given, "days": days, **times}, {**given, **{word: time_typed(at, word) for word, at in times.items()}}


def _span(days: str, now: datetime) -> dict[str, datetime]:
    """``since``, and for yesterday ``until``."""
    if days == YESTERDAY:
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return {"since": today - timedelta(days=1), "until": today}
    return {"since": now.replace(minute=0, second=0, microsecond=0) - timedelta(days=int(days))}


def preview_redrive(call: PageCall) -> Response:
    """How many dead runs a filter finds, and which."""
    call.require(Verb.REDRIVE, call.param("job"))
    return _preview(call, None)


def redrive(call: PageCall) -> Response:
    """Repeat the runs for as long as a request may take; the answer has a button that continues."""
    form = call.form
    given, conditions = _filter(call, form)
    text, keeps = form.get("payload", "").strip(), form.get("as_it_was", "")
    try:
        payload = {"payload": json_typed(text)} if text else {}
        with call.in_time() as stop:
            cursor = cursor_of_url(form.get("cursor") or None)
            done = call.acting().redrive(**conditions, **payload, as_it_was=bool(keeps), cursor=cursor, stop=stop)
    except InvalidInput as problem:
        if problem.field.partition(".")[0] != "payload":
            raise
        return _preview(call, problem)
    return call.render(
        "runs/redriven.html",
        given=given,
        done=done,
        total=done.count + _number(form.get("before")),
        wanted=_number(form.get("wanted")),
        cursor=cursor_in_url(done.cursor),
        payload=text,
        as_it_was=keeps,
        reason=form.get("reason", ""),
    )


def preview_dismissal(call: PageCall) -> Response:
    """How many dead runs would leave the list, and which are the newest."""
    call.require(Verb.PURGE, call.param("job"))
    given, conditions = _filter(call, call.request.query_params)
    page = call.scheduler.list_dead(**conditions, include_redriven=True, limit=_READ)
    return call.render(
        "runs/dismiss.html",
        given=given,
        count=len(page.items),
        more=page.cursor is not None,
        shown=page.items[:_SHOWN],
    )


def dismiss(call: PageCall) -> Response:
    """Remove the runs from the list for as long as a request may take; the answer has a button that continues."""
    given, conditions = _filter(call, call.form)
    with call.in_time() as stop:
        count = call.acting().purge(**conditions, stop=stop)
        more = stop.is_set() and call.scheduler.purge(**conditions, dry_run=True, limit=1) > 0
    return call.render(
        "runs/dismissed.html",
        given=given,
        total=count + _number(call.form.get("before")),
        more=more,
        reason=call.form.get("reason", ""),
    )


def _preview(call: PageCall, fault: InvalidInput | None) -> Response:
    words: Any = call.form or call.request.query_params
    given, conditions = _filter(call, words)
    page = call.scheduler.list_dead(**conditions, limit=_READ)
    return call.render(
        "runs/redrive.html",
        given=given,
        count=len(page.items),
        more=page.cursor is not None,
        shown=page.items[:_SHOWN],
        checked=min(len(page.items), _CHECKED),
        failed=_not_repeated(call, page.items[:_CHECKED]),
        payload=words.get("payload", ""),
        as_it_was=words.get("as_it_was", ""),
        fault=fault,
    )


def _not_repeated(call: PageCall, runs: Sequence[Any]) -> Mapping[str, str]:
    """The error that repeating would raise, by the id of the run; runs that can be repeated are not in it."""
    problems: dict[str, str] = {}
    for run in runs:
        try:
            call.scheduler.redrive(run.id, dry_run=True)
        except QuarterjackError as problem:
            problems[run.id] = str(problem)
    return problems


def _number(text: str | None) -> int:
    return number_typed(text) or 0


ROUTES = (
    get("/dead", show),
    get("/dead/redrive", preview_redrive),
    post("/dead/redrive", redrive),
    get("/dead/dismiss", preview_dismissal),
    post("/dead/dismiss", dismiss),
)
