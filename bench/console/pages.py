"""Every page of the console and every read of the API, as addresses of a large ledger: they follow from the tables of routes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from quarterjack.console import add_console
from quarterjack.sdk.tenants.tenants import Tenants
from quarterjack.web import Actor, create_app
from quarterjack.web.authentication import KeyAccess
from quarterjack.web.urls import name_in_url, run_in_url
from starlette.routing import Mount, Route

from bench.console.ledger import TENANT, VERSION, LargeLedger

KEY = "qjk_bench"
PREVIEWS = ("/tenant/{holder}/revoke",)  # needs a grant that is there
# What an address needs besides its path, of pages that ask for something: the act, or whose.
QUERIES = {
    "/schedules/act": "do=pause&q=prefix:team-01/",
    "/schedule/{name}/act": "do=pause",
    "/run/{run}/act": "do=replay",
    "/tenant/{holder}/act": "do=suspend",
    "/version/{version}/act": "do=reassign",
    "/tenants/switch": f"to={TENANT}",
}
OF_PIPELINES = ("/schedule/{name}/task-stats",)  # pages whose schedule has tasks
# Filters that hardly anything meets, or nothing, besides the plain addresses.
FILTERED = (
    "schedules?q=schedule-04711",
    "schedules?q=failing:yes",
    "schedules?q=nothing-of-this-name",
    "schedules?q=job:jobs.job_3",
    "runs?state=DEAD",
    "runs?job=jobs.nothing",
    "runs?error_type=NoSuchError",
    "dead?days=30",
    "dead?days=30&job=jobs.nothing",
    "dead?days=30&error_type=NoSuchError",
    "audit?days=30&actor=nobody",
    "audit?days=30&schedule=team-03/schedule-00003",
    "audit/verify?days=30",
)
READS = (  # of the API
    "schedules",
    "schedules?limit=100&contains=nothing-of-this-name",
    "schedules/{name}",
    "schedules/{name}/status",
    "schedules/{name}/runs",
    "runs",
    "runs?job=jobs.nothing",
    "runs/{run}",
    "dead",
    "dead?job=jobs.nothing",
    "audit",
    "audit?actor=nobody",
    "queues",
    "workers",
    "jobs",
)


def application(ledger: LargeLedger) -> FastAPI:
    """API and console of the ledger, for whoever sends the key, without a limit."""
    operator = Actor(name="bench@acme", operator=True)
    tenants = Tenants(services=ledger.memory.connect(), clock=ledger.clock, via="api")
    app = create_app(ledger.scheduler, access=KeyAccess(KEY, operator), rate=None, tenants=tenants)
    return add_console(app, tenant=TENANT)


def values_of(ledger: LargeLedger) -> Mapping[str, str]:
    """What stands in addresses for their parameters."""
    sample = ledger.sample
    return {
        "name": name_in_url(sample["name"]),
        "run": run_in_url(sample["run"]),
        "job": name_in_url(sample["job"]),
        "holder": name_in_url(TENANT),
        "version": VERSION,
    }


def page_paths(app: FastAPI) -> list[str]:
    """The paths of all GET routes of the console below the tenant's address, with their parameters' names."""
    (console,) = (route for route in app.routes if isinstance(route, Mount) and route.path == "/console")
    pages: Any = console.app
    (tenant,) = (route for route in pages._app.routes if isinstance(route, Mount) and route.path.startswith("/t/"))
    return list(_gets(tenant.routes))


def _gets(routes: Iterable[Any]) -> Iterator[str]:
    for route in routes:
        if isinstance(route, Route) and "GET" in (route.methods or ()):
            yield route.path


def addresses(app: FastAPI, ledger: LargeLedger) -> list[str]:
    """Addresses below the tenant's: of each page one, where its parameters are known, and those with narrow filters."""
    values, found = values_of(ledger), []
    pipeline = name_in_url(ledger.sample["pipeline"])
    for path in page_paths(app):
        if path not in PREVIEWS and set(re.findall(r"{(\w+)}", path)) <= set(values):
            query = QUERIES.get(path, "")
            given = {**values, "name": pipeline} if path in OF_PIPELINES else values
            found.append(path.format(**given).removeprefix("/") + (f"?{query}" if query else ""))
    return [*found, *FILTERED]
