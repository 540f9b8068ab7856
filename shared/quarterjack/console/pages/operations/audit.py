"""The audit: who did what, why, and whether the record of it is whole."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, chosen
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.errors import InvalidInput
from quarterjack.sdk.views import Page
from quarterjack.web.urls import cursor_in_url, cursor_of_url, run_of_url

_ROWS = 50
_LINES = 1_000  # that one page verifies
_WORDS = ("schedule", "actor", "act", "run", "call")
SPANS = {"1": "24 hours", "7": "7 days", "30": "30 days", "90": "90 days", "365": "a year"}  # by days
VERIFIED = {"1": "today and yesterday", "7": "7 days", "30": "30 days"}
_OWN = {"": "this tenant's"}
WHOSE = {**_OWN, "installation": "the installation's"}


def whose_for(call: PageCall) -> dict[str, str]:
    """Whose audit the actor may read, besides the tenant's."""
    return WHOSE if call.may(Verb.READ_AUDIT, holder=INSTALLATION) else _OWN


def show(call: PageCall) -> Response:
    """The lines that all filters find, newest first. A filter that cannot be read is shown with its fault."""
    given = {word: value for word in _WORDS if (value := call.param(word)) is not None}
    days = call.param("days") or "30"
    try:
        page, fault, since = _found(call, given, days), None, since_of(call, days).isoformat()
    except InvalidInput as problem:
        page, fault, since = Page(items=[]), problem, None
    more = cursor_in_url(page.cursor)
    bounds = {"days": days, "of": call.param("of"), "since": since}
    return call.render(
        "operations/audit.html",
        200 if fault is None else 422,
        given=given,
        days=days,
        of=call.param("of") or "",
        spans=SPANS,
        whose=whose_for(call),
        acts=[str(act) for act in AuditAct],
        page=page,
        fault=fault,
        more=None if more is None else call.address("audit", **given, **bounds, cursor=more),
        now=call.now,
    )


def since_of(call: PageCall, days: str) -> datetime:
    """The beginning of the listing, which the address keeps, so that the next page is of the same one."""
    text = call.param("since")
    if text is None:
        span = int(days) if days in SPANS else 30
        return call.now.replace(minute=0, second=0, microsecond=0) - timedelta(days=span)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput("since", text, "is not a time", "choose a span of days") from None


def _found(call: PageCall, given: dict[str, str], days: str) -> Page:
    chosen(days, SPANS, "days")
    of = chosen(call.param("of") or "", WHOSE, "of")
    filters: dict[str, Any] = {name: value for name, value in given.items() if name != "run"}
    if "run" in given:
        filters["run_id"] = run_of_url(given["run"]) if "/" not in given["run"] else given["run"]
    return call.scheduler.audit(
        **filters,
        since=since_of(call, days),
        installation=of == "installation",
        limit=_ROWS,
        cursor=cursor_of_url(call.param("cursor")),
    )


def verify(call: PageCall) -> Response:
    """Whether the lines are as they were written. Without ``days`` it asks which. A page verifies so many lines, then goes on."""
    days, of = call.param("days"), chosen(call.param("of") or "", WHOSE, "of")
    verdict, upto = None, call.param("upto")
    if days is not None:
        since = call.now - timedelta(days=int(chosen(days, VERIFIED, "days")))
        verdict = call.scheduler.verify_audit(
            since=since, until=_end_of(upto), installation=of == "installation", limit=_LINES
        )
    return call.render(
        "operations/verify.html",
        verdict=verdict,
        most=_LINES,
        days=days or "7",
        upto=upto,
        of=of,
        spans=VERIFIED,
        whose=whose_for(call),
        now=call.now,
    )


def _end_of(day: str | None) -> datetime | None:
    """The last instant of a UTC day, which the link to the rest names."""
    try:
        return None if day is None else datetime.combine(date.fromisoformat(day), time.max, UTC)
    except ValueError:
        raise InvalidInput("upto", day, "is not a date", "give it as in 2026-11-22, or leave it out") from None
