"""Errors as pages: what is wrong, and what to do."""

from __future__ import annotations

import logging
from math import ceil

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from quarterjack.console.calls import call_of
from quarterjack.console.rendering import rendered
from quarterjack.errors import InvalidInput, QuarterjackError, Throttled
from quarterjack.web.problems import RefusedRequest, kind_of

log = logging.getLogger(__name__)


async def answer(request: Request, problem: Exception) -> Response:
    """The page of an error. What is not the caller's to mend is logged."""
    status, title, detail, remedy = _said(problem)
    if status >= 500:
        log.error("console.failed", extra={"path": request.url.path, "error": type(problem).__name__}, exc_info=problem)
    headers = problem.headers if isinstance(problem, RefusedRequest) else {}
    if isinstance(problem, Throttled):
        headers = {"Retry-After": str(ceil(problem.seconds))}
    call = await call_of(request, is_unknown=isinstance(problem, HTTPException))
    page = rendered(request, "problem.html", status, call=call, title=title, detail=detail, remedy=remedy)
    page.headers.update(headers)
    return page


def _said(problem: Exception) -> tuple[int, str, str, str | None]:
    if isinstance(problem, QuarterjackError):
        kind = kind_of(problem)
        return kind.status, kind.title, str(problem), problem.remedy if isinstance(problem, InvalidInput) else None
    if isinstance(problem, RefusedRequest):
        return (
            problem.status,
            "Not let in" if problem.status in (401, 403) else "Refused",
            problem.detail,
            problem.remedy,
        )
    if isinstance(problem, HTTPException):
        return problem.status_code, "No such page", f"There is no page at this address ({problem.detail}).", None
    return 500, "The server failed", "Its log has the error.", "Try again; if it stays, read the log of the server."
