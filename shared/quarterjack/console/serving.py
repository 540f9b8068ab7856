"""The API and the console for one machine: for whoever has the key that is printed once. ``quarterjack serve`` and ``local`` serve it."""

from __future__ import annotations

from fastapi import FastAPI

from quarterjack.console.app import add_console
from quarterjack.console.sign_in import ApiKeySession, BrowserSession, EitherSession
from quarterjack.jobs import Registry
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.settings import Settings
from quarterjack.web.serving import local_app


def front_door(settings: Settings, key: str, *, reason: str | None = None) -> FastAPI:
    """The application of an installation. The key opens the API as a header, and a session of the console; so do API keys."""
    scheduler = Scheduler(settings=settings, jobs=Registry(), via="api").acting_as(reason=reason)
    session = EitherSession(BrowserSession(key), ApiKeySession(scheduler))
    app = local_app(scheduler, settings=settings, key=key, also=session)
    return add_console(app, tenant=settings.tenant, session=session)
