"""The console as a part of the API's application, at ``/console``: the same access, limits and guard. Errors are answered as pages."""

from __future__ import annotations

import logging
from importlib.resources import files
from math import ceil

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from quarterjack.console.answer_links import confirm_link, show_link
from quarterjack.console.calls import Console, call_of, home
from quarterjack.console.pages import (
    access,
    answers,
    audit,
    backfills,
    dead,
    freeze,
    jobs,
    machinery,
    overview,
    run_actions,
    runs,
    tenants,
    versions,
)
from quarterjack.console.pages.fires import calendar, firing, timeline
from quarterjack.console.pages.pipelines import tasks
from quarterjack.console.pages.schedules import actions, detail, form
from quarterjack.console.rendering import ROOT, asset, rendered
from quarterjack.console.sign_in import (
    ApiKeySession,
    ConsoleSession,
    ask_to_sign_in,
    has_form,
    sign_in_address,
    sign_in_form,
    sign_in_now,
    sign_out,
)
from quarterjack.domain.names import check_tenant
from quarterjack.errors import InvalidInput, QuarterjackError, Throttled
from quarterjack.ports.services import Services
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.web.app import PAGES, create_gateway_app
from quarterjack.web.authentication import Access, closed, first_of
from quarterjack.web.error_kinds import kind_of
from quarterjack.web.problems import RefusedRequest

log = logging.getLogger(__name__)

# Pages of a tenant. `/schedules/new` and `/schedules/act` stand before addresses with a name in their place.
_TABLES = (
    *(overview, detail, form, actions, backfills, timeline, calendar, firing, runs, run_actions, tasks, answers, dead),
    *(machinery, versions, jobs, freeze, audit, tenants, access),
)
_IN_TENANT = "/t/{tenant}"
_SMALL, _LEVEL = 1_000, 6  # bytes that are not worth compressing; of gzip: the next levels take longer and gain 1 %
_FOR_EVER = "public, max-age=31536000, immutable"


def add_console(app: FastAPI, *, tenant: str = "default", session: ConsoleSession | None = None) -> FastAPI:
    """Mount the console into an application of ``create_app``, and return the application.

    ``tenant`` is shown to an actor who names none. With a ``session`` people sign in here; without one the host application signs them in,
    and ``access`` of ``create_app`` finds out who they are.
    """
    compressed = Middleware(GZipMiddleware, minimum_size=_SMALL, compresslevel=_LEVEL)
    pages = Starlette(routes=_routes(), exception_handlers=_HANDLERS, middleware=[compressed])
    pages.state.console = Console(front=app.state.front, tenant=check_tenant(tenant), session=session)
    app.mount(PAGES, _Rooted(pages))
    for path in ("/", PAGES):
        app.add_route(path, _to_pages, include_in_schema=False)
    return app


def gateway_front_door(services: Services, *, also: Access = closed) -> FastAPI:
    """The API and the console as they are deployed: one function, in which people sign in with an API key.

    No process keeps sessions, so any process answers any request. ``also`` as in ``create_gateway_app``.
    """
    session = ApiKeySession(Scheduler(services=services))
    return add_console(create_gateway_app(services, also=first_of(session, also)), session=session)


async def _to_pages(request: Request) -> Response:
    """Redirect two addresses that people type to the console: the server's root, and the console without its last slash."""
    return RedirectResponse(f"{request.scope.get('root_path', '').rstrip('/')}{PAGES}/", 307)


class _Assets(StaticFiles):
    """Static files. A browser may cache a file for ever if its address has the hash of the content."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """See Starlette."""
        answer = await super().get_response(path, scope)
        kept = answer.status_code < 400 and asset(path).partition("?")[2].encode() == scope["query_string"]
        answer.headers["Cache-Control"] = _FOR_EVER if kept else "no-cache"
        return answer


class _Rooted:
    """Tells every request where the console is mounted, which the mounts inside it would hide."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        await self._app({**scope, ROOT: scope.get("root_path", "")}, receive, send)


def _routes() -> list[Route | Mount]:
    static = _Assets(directory=str(files("quarterjack.console") / "static"))
    return [
        Route("/", home),
        Route("/sign-in", sign_in_form, methods=["GET"]),
        Route("/sign-in", sign_in_now, methods=["POST"]),
        Route("/sign-out", sign_out, methods=["POST"]),
        Route("/answer/{run}/{token}", show_link, methods=["GET"]),
        Route("/answer/{run}/{token}", confirm_link, methods=["POST"]),
        Mount("/static", static, name="static"),
        Mount(_IN_TENANT, routes=_pages()),
    ]


def _pages() -> list[Route]:
    """The pages of a tenant."""
    return [route for table in _TABLES for route in table.ROUTES]


async def _refused(request: Request, problem: Exception) -> Response:
    session = request.app.state.console.session
    if isinstance(problem, RefusedRequest) and problem.status == 401 and session is not None:
        if request.method == "GET":
            return RedirectResponse(sign_in_address(request), 303)
        if request.method == "POST" and has_form(request):
            return await ask_to_sign_in(request)
    return await _problem_page(request, problem)


async def _problem_page(request: Request, problem: Exception) -> Response:
    """The page of an error. Errors that the caller cannot correct are logged."""
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
        title = "Not let in" if problem.status in (401, 403) else "Refused"
        return problem.status, title, problem.detail, problem.remedy
    if isinstance(problem, HTTPException):
        return problem.status_code, "No such page", f"There is no page at this address ({problem.detail}).", None
    return 500, "The server failed", "Its log has the error.", "Try again; if it stays, read the log of the server."


_HANDLERS = {QuarterjackError: _refused, RefusedRequest: _refused, HTTPException: _refused, Exception: _problem_page}
