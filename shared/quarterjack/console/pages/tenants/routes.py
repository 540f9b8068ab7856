"""Addresses of the pages about tenants, below the tenant's."""

from __future__ import annotations

from starlette.routing import Route

from quarterjack.console.calls import page
from quarterjack.console.pages.tenants import detail, grants, index, keys

ROUTES = (
    Route("/tenants", page(index.show)),
    Route("/tenants/switch", page(index.switch)),
    Route("/tenants/new", page(index.new), methods=["GET"]),
    Route("/tenants/new", page(index.create), methods=["POST"]),
    Route("/tenant/{holder}", page(detail.show)),
    Route("/tenant/{holder}/act", page(detail.preview_act), methods=["GET"]),
    Route("/tenant/{holder}/act", page(detail.act), methods=["POST"]),
    Route("/tenant/{holder}/edit", page(detail.edit), methods=["GET"]),
    Route("/tenant/{holder}/edit", page(detail.change), methods=["POST"]),
    Route("/tenant/{holder}/grant", page(grants.show_grant), methods=["GET"]),
    Route("/tenant/{holder}/grant", page(grants.grant), methods=["POST"]),
    Route("/tenant/{holder}/revoke", page(grants.show_revoke), methods=["GET"]),
    Route("/tenant/{holder}/revoke", page(grants.revoke), methods=["POST"]),
    Route("/keys", page(keys.show)),
    Route("/keys/new", page(keys.new), methods=["GET"]),
    Route("/keys/new", page(keys.create), methods=["POST"]),
    Route("/keys/{key}/revoke", page(keys.show_revoke), methods=["GET"]),
    Route("/keys/{key}/revoke", page(keys.revoke), methods=["POST"]),
)
