"""The runs that failed for good and were not repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, chosen
from quarterjack.console.inputs import time_typed
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


def show(call: PageCall) -> Response:
    """The list of dead runs, newest first."""
    given, conditions = dead_filter(call, call.request.query_params)
    page = call.scheduler.list_dead(**conditions, limit=_ROWS, cursor=cursor_of_url(call.param("cursor")))
    more = cursor_in_url(page.cursor)
    return call.render(
        "runs/dead.html",
        errors=_by_error(page.items, given),
        given=given,
        spans=SPANS,
        page=page,
        more=None if more is None else call.address("dead", **given, cursor=more),
        now=call.now,
    )


def _by_error(items: Sequence[DeadRun], given: Mapping[str, str]) -> list[dict[str, Any]]:
    """How often a job failed by an error, with the filter for each; nothing where one line says it all."""
    counts = Counter((one.error_type, one.job) for one in items)
    if len(counts) < 2:
        return []
    return [
        {"error": error, "job": job, "count": count, "given": {**given, "job": job, "error_type": error}}
        for (error, job), count in counts.most_common(_ERRORS)
    ]


def dead_filter(call: PageCall, words: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    """The filter as its address says it, and as keywords of the SDK.

    Its times are in the address, so that the next page and the act are about the same runs.
    """
    given = {word: value for word in _WORDS if (value := words.get(word, "").strip())}
    days = chosen(words.get("days") or "1", SPANS, "days")
    times = {word: value for word in ("since", "until") if (value := words.get(word, "").strip())}
    if not times:
        times = {word: at.isoformat() for word, at in _span(days, call.now).items()}
    return {**given, "days": days, **times}, {**given, **{word: time_typed(at, word) for word, at in times.items()}}


def _span(days: str, now: datetime) -> dict[str, datetime]:
    """From when on, and for yesterday until when."""
    if days == YESTERDAY:
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return {"since": today - timedelta(days=1), "until": today}
    return {"since": now.replace(minute=0, second=0, microsecond=0) - timedelta(days=int(days))}
