"""Addresses of the pages of backfills, below the tenant's."""

from __future__ import annotations

from starlette.routing import Route

from quarterjack.console.calls import page
from quarterjack.console.pages.backfills import acts, begin, index

ROUTES = (
    Route("/backfills", page(index.show)),
    Route("/schedule/{name}/backfill", page(begin.form), methods=["GET"]),
    Route("/schedule/{name}/backfill", page(begin.begin), methods=["POST"]),
    Route("/schedule/{name}/backfills/{backfill}", page(index.show_one)),
    Route("/schedule/{name}/backfills/{backfill}/act", page(acts.preview), methods=["GET"]),
    Route("/schedule/{name}/backfills/{backfill}/act", page(acts.act), methods=["POST"]),
)
