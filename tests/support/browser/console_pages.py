"""Every page of the console by its route; `test_console_routes` says which are missing here."""

from __future__ import annotations

from collections.abc import Mapping

from quarterjack.console.app import _pages

# The route of a page: addresses below the tenant's, of which the first is looked at in every width and theme.
# DEAD, GOOD, DUE, WAITS and PIPELINE are runs of the scene, BACKFILL is a backfill, APIKEY a key.
PAGES: Mapping[str, tuple[str, ...]] = {
    "/": ("",),
    "/schedules": ("schedules", "schedules?q=tag:team%3Ddata", "schedules?q=nothing", "schedules?q=x:y"),
    "/schedules/new": ("schedules/new",),
    "/schedules/act": ("schedules/act?do=pause&q=tag:team%3Ddata", "schedules/act?do=delete&q=nothing"),
    "/schedule/{name}": (
        "schedule/sync~warehouse",
        "schedule/search~reindex",
        "schedule/exports~nightly",
        "schedule/warehouse",
    ),
    "/schedule/{name}/edit": ("schedule/exports~hourly/edit",),
    "/schedule/{name}/act": ("schedule/exports~hourly/act?do=pause", "schedule/exports~hourly/act?do=delete"),
    "/backfills": ("backfills", "backfills?state=DONE"),
    "/schedule/{name}/backfill": ("schedule/exports~hourly/backfill",),
    "/schedule/{name}/backfills/{backfill}": ("schedule/sync~warehouse/backfills/BACKFILL",),
    "/schedule/{name}/backfills/{backfill}/act": ("schedule/sync~warehouse/backfills/BACKFILL/act?do=cancel",),
    "/timeline": ("timeline", "timeline?q=nothing"),
    "/calendar": ("calendar?zone=Europe/Berlin&holidays=DE-BY", "calendar?zone=Europe/Berlin&show=month"),
    "/calendar/fires": ("calendar/fires?from=2026-05-05T00:00:00Z&to=2026-05-05T04:00:00Z&zone=Europe/Berlin",),
    "/runs": ("runs", "runs?state=DEAD", "runs?job=none"),
    "/run/{run}": ("run/DEAD", "run/GOOD", "run/DUE", "run/WAITS", "run/PIPELINE"),
    "/run/{run}/tasks": ("run/PIPELINE/tasks",),
    "/schedule/{name}/task-stats": ("schedule/warehouse/task-stats",),
    "/run/{run}/logs": ("run/GOOD/logs",),
    "/run/{run}/transitions": ("run/GOOD/transitions",),
    "/run/{run}/act": ("run/DEAD/act?do=replay", "run/DUE/act?do=cancel", "run/PIPELINE/act?do=repeat"),
    "/run/{run}/answer": ("run/WAITS/answer",),
    "/dead": ("dead", "dead?job=none"),
    "/dead/dismiss": ("dead/dismiss?job=search.reindex",),
    "/dead/redrive": ("dead/redrive?job=search.reindex",),
    "/queues": ("queues",),
    "/workers": ("workers", "workers?job=none"),
    "/versions": ("versions", "versions?attempts=yes"),
    "/version/{version}/act": (
        "version/1.4/act?do=latest",
        "version/1.4/act?do=reassign",
        "version/1.4/act?do=retire",
    ),
    "/jobs": ("jobs", "jobs?q=nothing"),
    "/job/{job}": ("job/export.orders",),
    "/job/{job}/submit": ("job/export.orders/submit",),
    "/freeze": ("freeze", "freeze?for=4h"),
    "/doctor": ("doctor",),
    "/audit": ("audit", "audit?actor=nobody"),
    "/audit/verify": ("audit/verify", "audit/verify?days=7"),
    "/tenants": ("tenants",),
    "/tenants/new": ("tenants/new",),
    "/tenant/{holder}": ("tenant/acme", "tenant/none"),
    "/tenant/{holder}/act": ("tenant/acme/act?do=suspend",),
    "/tenant/{holder}/edit": ("tenant/acme/edit",),
    "/tenant/{holder}/grant": ("tenant/acme/grant", "tenant/acme/grant?to=app:eve@acme&can=viewer"),
    "/tenant/{holder}/revoke": ("tenant/acme/revoke?to=app:bob@acme",),
    "/keys": ("keys",),
    "/keys/new": ("keys/new",),
    "/keys/{key}/revoke": ("keys/APIKEY/revoke",),
}
GO_ELSEWHERE = {"/tenants/switch"}  # answered by the address of another page


def addressed(page: str, known: Mapping[str, str]) -> str:
    """The address with the ids of a scene."""
    for word, value in known.items():
        page = page.replace(word, value)
    return page


def routes(method: str) -> set[str]:
    """The routes of a tenant's pages."""
    return {route.path for route in _pages() if method in (route.methods or ())}
