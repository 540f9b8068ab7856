"""The audit: who did what, why, and whether the entries are as they were written."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, get
from quarterjack.console.forms import chosen, time_typed
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.errors import InvalidInput
from quarterjack.sdk.views import Page
from quarterjack.web.urls import run_of_url

_ROWS = 50
_AT_ONCE = 1_000  # entries that one page verifies
_WORDS = ("schedule", "actor", "act", "run", "call")
SPANS = {"1": "24 hours", "7": "7 days", "30": "30 days", "90": "90 days", "365": "a year"}  # by days
VERIFIED = {"1": "today and yesterday", "7": "7 days", "30": "30 days"}
_OWN = {"": "this tenant's"}
WHOSE = {**_OWN, "installation": "the installation's"}


def show(call: PageCall) -> Response:
    """The entries that all filters find, newest first. A filter that cannot be read is shown with its fault."""
    given, days = call.params(*_WORDS), call.param("days") or "30"
    try:
        page, fault, since = _found(call, given, days), None, _since(call, days).isoformat()
    except InvalidInput as problem:
        page, fault, since = Page(items=[]), problem, None
    bounds = {"days": days, "of": call.param("of"), "since": since}
    return call.render(
        "operations/audit.html",
        given=given,
        days=days,
        of=call.param("of") or "",
        spans=SPANS,
        whose=_readable(call),
        acts=[str(act) for act in AuditAct],
        page=page,
        fault=fault,
        more=call.further(page.cursor, "audit", **given, **bounds),
    )


def _readable(call: PageCall) -> dict[str, str]:
    """The audits that the actor may read: the tenant's, and perhaps the installation's."""
    return WHOSE if call.may(Verb.READ_AUDIT, holder=INSTALLATION) else _OWN


def _since(call: PageCall, days: str) -> datetime:
    """The beginning of the listing. The address keeps it, so that the next page belongs to the same listing."""
    text = call.param("since")
    if text is not None:
        return time_typed(text, "since")
    span = int(days) if days in SPANS else 30
    return call.now.replace(minute=0, second=0, microsecond=0) - timedelta(days=span)


def _found(call: PageCall, given: dict[str, str], days: str) -> Page:
    chosen(days, SPANS, "days")
    of = chosen(call.param("of") or "", WHOSE, "of")
    filters: dict[str, Any] = {name: value for name, value in given.items() if name != "run"}
    if "run" in given:
        filters["run_id"] = run_of_url(given["run"]) if "/" not in given["run"] else given["run"]
    return call.scheduler.audit(
        **filters,
        since=_since(call, days),
        installation=of == "installation",
        limit=_ROWS,
        cursor=call.cursor,
    )


def verify(call: PageCall) -> Response:
    """Whether the entries are as they were written. Without ``days`` it asks for a span. A large span takes several pages."""
    days, of = call.param("days"), chosen(call.param("of") or "", WHOSE, "of")
    verdict, upto = None, call.param("upto")
    if days is not None:
        since = call.now - timedelta(days=int(chosen(days, VERIFIED, "days")))
        verdict = call.scheduler.verify_audit(
            since=since, until=_end_of(upto), installation=of == "installation", limit=_AT_ONCE
        )
    return call.render(
        "operations/verify.html",
        verdict=verdict,
        most=_AT_ONCE,
        days=days or "7",
        upto=upto,
        of=of,
        spans=VERIFIED,
        whose=_readable(call),
    )


def _end_of(day: str | None) -> datetime | None:
    """The last instant of a UTC day, which the link to the next page names."""
    try:
        return None if day is None else datetime.combine(date.fromisoformat(day), time.max, UTC)
    except ValueError:
        raise InvalidInput("upto", day, "is not a date", "give it as in 2026-11-22, or leave it out") from None


ROUTES = (get("/audit", show), get("/audit/verify", verify))
