"""The HTTP API as one ASGI application: to serve on its own, or to mount into a FastAPI, Starlette or Django application."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from starlette.responses import Response

from quarterjack.ports.services import Services
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.sdk.tenants.tenants import Tenants
from quarterjack.settings import Settings
from quarterjack.version import VERSION
from quarterjack.web.authentication import Access, ApiKeyAccess, closed, first_of, gateway_access
from quarterjack.web.calls import FrontDoor
from quarterjack.web.error_kinds import REFUSALS
from quarterjack.web.guard import MAX_BODY, Guard, GuardOptions
from quarterjack.web.limits import RequestLimit
from quarterjack.web.problems import Problem, add_handlers
from quarterjack.web.routes import (
    dead,
    declarations,
    installation,
    operators,
    pipelines,
    runs,
    schedule_acts,
    schedule_runs,
    schedules,
    waits,
)
from quarterjack.web.routes.routing import name_of_route
from quarterjack.web.shapes import json_bytes

_ROUTERS = (
    schedules,
    schedule_acts,
    schedule_runs,
    runs,
    pipelines,
    waits,
    dead,
    declarations,
    installation,
    operators,
)
_ABOUT = (
    "A job scheduler: run this job at that time, once, and tell me what happened. "
    "`/` in a name is written `~` in an address, and a run is named by its `url_id`. "
    "Every error is a problem document (RFC 9457) with `code`, and where an argument is wrong with `field`, `value` and `remedy`."
)
TAGS: Mapping[str, str] = {
    "schedules": "Rules that say when a job runs: create, read, change, pause, and when they fire.",
    "runs of a schedule": "Its runs, and backfills of its past fires.",
    "runs": "Runs of all schedules and one-offs: submit, find, wait for, cancel, repeat.",
    "pipelines": "Schedules with tasks; the tasks of a run: read, skip, retry.",
    "many": "Runs that failed for good, and acts on many schedules or runs.",
    "declarations": "Schedules as a document that is compared and applied; the preview of an expression.",
    "installation": "Queues, workers, jobs, audit, statistics and the freeze of the tenant.",
    "operators": "For operators of the installation: tenants, grants, API keys, breakers, the doctor.",
    "server": "Whether the server answers.",
}
_REFUSED = {
    **{status: kind.title for status, kind in REFUSALS.items()},
    401: "The request does not say who sends it, or what it says is not valid",
    403: "The caller may not do this, or a limit of the tenant refuses it",
    404: "There is nothing of that name or id, or no such address",
    422: "An argument is invalid; nothing was written",
    429: "More than a limit allows; Retry-After says when to come again",
}
PAGES = "/console"  # where ``quarterjack.console`` mounts its pages
SchedulerOf = Callable[[str], Scheduler]


def create_app(
    scheduler: Scheduler | SchedulerOf,
    *,
    access: Access = closed,
    hosts: Collection[str] | None = None,
    rate: float | None = 100.0,
    burst: int = 200,
    longest: float = 20.0,
    max_body: int = MAX_BODY,
    tenants: Tenants | None = None,
    settings: Settings | None = None,
) -> FastAPI:
    """The API over a Scheduler, whose tenant is that of each request's address.

    ``scheduler`` may be a function from a tenant to its Scheduler. ``access`` tells who sends a request, or None: nobody is let in
    without it. ``hosts`` are the names by which the server may be asked; None: any. ``rate`` (None: no limit)
    and ``burst`` are requests a second, and at once, of one actor in this process. ``longest``: seconds of a long poll, and of work on
    many. ``max_body``: bytes. ``tenants`` (default: those of the ``scheduler``, unless it is a function) and ``settings`` of the
    installation are for operators: the profiles of tenants, and the doctor.
    """
    app = routed(GuardOptions(hosts=hosts, max_body=max_body, forms_below=PAGES))
    app.state.front = FrontDoor(
        scheduler_of=_by_tenant(scheduler),
        access=access,
        limit=None if rate is None else RequestLimit(rate, burst, time.monotonic),
        longest=longest,
        tenants=tenants or _tenants_of(scheduler),
        settings=settings,
    )
    return app


def routed(options: GuardOptions) -> FastAPI:
    """An application with all routes. The ``front`` in its state is yet to be set."""
    app = FastAPI(
        title="Quarterjack",
        version=VERSION,
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        generate_unique_id_function=name_of_route,
    )
    for module in _ROUTERS:
        app.router.routes.extend(module.router.routes)
    _add_open_routes(app)
    add_handlers(app)
    app.add_middleware(Guard, options=options)
    return app


def create_gateway_app(services: Services, *, also: Access = closed) -> FastAPI:
    """The API as it is deployed, behind API Gateway: for API keys, for whom the gateway's authoriser let in, and for whom ``also`` finds.

    Operators are not served: the function's role may not change what tenants are.
    """
    scheduler = Scheduler(services=services)
    of_tenant = _by_tenant(scheduler)
    return create_app(of_tenant, access=first_of(ApiKeyAccess(scheduler), gateway_access, also))


def _add_open_routes(app: FastAPI) -> None:
    """The routes that anybody may ask: they say nothing about an installation."""
    documents: dict[str, bytes] = {}  # by where the application is mounted

    @app.get("/healthz", tags=["server"], responses={"default": {"description": "a problem"}})
    def health() -> Mapping[str, str]:
        """Whether the server answers. It asks no table."""
        return {"status": "ok", "version": VERSION}

    @app.get("/openapi.json", include_in_schema=False)
    def openapi(request: Request) -> Response:
        root = str(request.scope.get("root_path", "")).rstrip("/")
        document = documents.get(root)  # another thread may put another one in its place at any time
        if document is None:
            document = json_bytes(openapi_document(app, root))
            documents.clear()
            documents[root] = document
        return Response(document, media_type="application/json")


def openapi_document(app: FastAPI, root: str = "") -> dict[str, Any]:
    """The OpenAPI 3.1 document of an application that is mounted at ``root``."""
    found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    made = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas["Problem"] = {name: value for name, value in made.items() if name != "$defs"}
    found["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    for path, operations in found["paths"].items():
        if path.startswith("/v1/"):
            for method, operation in operations.items():
                operation["security"] = [{"bearer": []}]
                if method == "get" and any(one["name"] == "If-None-Match" for one in operation.get("parameters", ())):
                    operation["responses"]["304"] = {"description": "Not changed: your copy is current"}
                _add_refusals(operation)
    used = dict.fromkeys(tag for each in found["paths"].values() for one in each.values() for tag in one["tags"])
    found["tags"] = [{"name": tag, "description": TAGS[tag]} for tag in used]
    found["servers"] = [{"url": root or "/", "description": "the server of this document"}]
    return found


def _add_refusals(operation: dict[str, Any]) -> None:
    """The refusals that an operation may answer, each a problem."""
    content = operation["responses"]["default"]["content"]
    names = {one["name"] for one in operation.get("parameters", ())}
    statuses = [401, 403, 404, 422, 429]
    statuses += [400, 412] if names & {"If-Match", "If-None-Match"} else []
    statuses += [400, 413, 415] if "requestBody" in operation else []
    for status in sorted(set(statuses)):
        said = {"description": _REFUSED[status], "content": content}
        operation["responses"].setdefault(str(status), said)


def _by_tenant(scheduler: Scheduler | SchedulerOf) -> SchedulerOf:
    if not isinstance(scheduler, Scheduler):
        return scheduler
    return scheduler.with_tenant


def _tenants_of(scheduler: Scheduler | SchedulerOf) -> Tenants | None:
    if not isinstance(scheduler, Scheduler):
        return None
    return Tenants(services=scheduler.session.services, clock=scheduler.session.clock, via="api")
