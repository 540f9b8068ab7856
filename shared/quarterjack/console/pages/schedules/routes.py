"""Addresses of the pages of schedules, below the tenant's."""

from __future__ import annotations

from starlette.routing import Route

from quarterjack.console.calls import page
from quarterjack.console.pages.schedules import acts, detail, edit, index

ROUTES = (
    Route("/schedules", page(index.show)),
    Route("/schedules/new", page(edit.new), methods=["GET"]),
    Route("/schedules/new", page(edit.create), methods=["POST"]),
    Route("/schedules/act", page(acts.preview_many), methods=["GET"]),
    Route("/schedules/act", page(acts.act_on_many), methods=["POST"]),
    Route("/schedule/{name}", page(detail.show)),
    Route("/schedule/{name}/edit", page(edit.edit), methods=["GET"]),
    Route("/schedule/{name}/edit", page(edit.change), methods=["POST"]),
    Route("/schedule/{name}/act", page(acts.preview_one), methods=["GET"]),
    Route("/schedule/{name}/act", page(acts.act_on_one), methods=["POST"]),
)
