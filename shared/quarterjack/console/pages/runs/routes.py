"""Addresses of the pages of runs, below the tenant's."""

from __future__ import annotations

from starlette.routing import Route

from quarterjack.console.calls import page
from quarterjack.console.pages.runs import acts, dead, detail, index, logs, redrive

ROUTES = (
    Route("/runs", page(index.show)),
    Route("/run/{run}", page(detail.show)),
    Route("/run/{run}/logs", page(logs.show)),
    Route("/run/{run}/transitions", page(detail.show_transitions)),
    Route("/run/{run}/act", page(acts.preview_run_act), methods=["GET"]),
    Route("/run/{run}/act", page(acts.act_on_run), methods=["POST"]),
    Route("/dead", page(dead.show)),
    Route("/dead/redrive", page(redrive.preview_redrive), methods=["GET"]),
    Route("/dead/redrive", page(redrive.redrive), methods=["POST"]),
    Route("/dead/dismiss", page(redrive.preview_dismissal), methods=["GET"]),
    Route("/dead/dismiss", page(redrive.dismiss), methods=["POST"]),
)
