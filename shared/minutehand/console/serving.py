"""The API and the console for one machine: for whoever has the key that is printed once. ``minutehand serve`` and ``local`` serve it."""

from __future__ import annotations

from fastapi import FastAPI

from minutehand.console.app import add_console
from minutehand.console.sign_in import ApiKeySession, BrowserSession, EitherSession
from minutehand.jobs import Registry
from minutehand.sdk.scheduler import Scheduler
from minutehand.settings import Settings
from minutehand.web.serving import local_app


def front_door(settings: Settings, key: str, *, reason: str | None = None) -> FastAPI:
    """The application of an installation. The key opens the API as a header, and a session of the console; so do API keys."""
    scheduler = Scheduler(settings=settings, jobs=Registry(), via="api").acting_as(reason=reason)
    session = EitherSession(BrowserSession(key), ApiKeySession(scheduler))
    app = local_app(scheduler, settings=settings, key=key, also=session)
    return add_console(app, tenant=settings.tenant, session=session)
