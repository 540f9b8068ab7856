"""The console as a part of the API's application, at ``/console``: the same access, limits and guard."""

from __future__ import annotations

from importlib.resources import files

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

from quarterjack.console import refusals
from quarterjack.console.calls import Console, home, page
from quarterjack.console.pages import overview
from quarterjack.console.pages.backfills.routes import ROUTES as BACKFILLS
from quarterjack.console.pages.fires.routes import ROUTES as FIRES
from quarterjack.console.pages.operations.routes import ROUTES as OPERATIONS
from quarterjack.console.pages.runs.routes import ROUTES as RUNS
from quarterjack.console.pages.schedules.routes import ROUTES as SCHEDULES
from quarterjack.console.pages.tenants.routes import ROUTES as TENANTS
from quarterjack.console.rendering import ROOT, asset
from quarterjack.console.sign_in import (
    ConsoleSession,
    ask_to_sign_in,
    has_form,
    sign_in_address,
    sign_in_form,
    sign_in_now,
    sign_out,
)
from quarterjack.domain.names import check_tenant
from quarterjack.errors import QuarterjackError
from quarterjack.web.app import PAGES
from quarterjack.web.problems import RefusedRequest

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


async def _to_pages(request: Request) -> Response:
    """The addresses that people type: of the server, and of the console without its last stroke."""
    return RedirectResponse(f"{request.scope.get('root_path', '').rstrip('/')}{PAGES}/", 307)


class _Assets(StaticFiles):
    """Files that may be kept for ever where the address has the mark of their content."""

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
        Mount("/static", static, name="static"),
        Mount(_IN_TENANT, routes=_pages()),
    ]


def _pages() -> list[Route]:
    """The pages of a tenant."""
    return [
        Route("/", page(overview.show)),
        *SCHEDULES,
        *BACKFILLS,
        *FIRES,
        *RUNS,
        *OPERATIONS,
        *TENANTS,
    ]


async def _refused(request: Request, problem: Exception) -> Response:
    session = request.app.state.console.session
    if isinstance(problem, RefusedRequest) and problem.status == 401 and session is not None:
        if request.method == "GET":
            return RedirectResponse(sign_in_address(request), 303)
        if request.method == "POST" and has_form(request):
            return await ask_to_sign_in(request)
    return await refusals.answer(request, problem)


_HANDLERS = {QuarterjackError: _refused, RefusedRequest: _refused, HTTPException: _refused, Exception: refusals.answer}
