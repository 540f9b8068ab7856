"""Addresses of the pages about fires, below the tenant's."""

from __future__ import annotations

from starlette.routing import Route

from quarterjack.console.calls import page
from quarterjack.console.pages.fires import calendar, firing, timeline

ROUTES = (
    Route("/timeline", page(timeline.show)),
    Route("/calendar", page(calendar.show)),
    Route("/calendar/fires", page(firing.show)),
)
