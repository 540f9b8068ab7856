"""The API and the console on one machine, for a caller with the key that is printed once. ``quarterjack serve`` and ``local`` serve it."""

from __future__ import annotations

from typing import Any

import uvicorn
from fastapi import FastAPI

from quarterjack.console.app import add_console
from quarterjack.console.sign_in import ApiKeySession, BrowserSession, EitherSession
from quarterjack.jobs import Registry
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.settings import Settings
from quarterjack.web.app import create_app
from quarterjack.web.authentication import ApiKeyAccess, KeyAccess, first_of

HOSTS = ("127.0.0.1", "localhost")  # another name in Host is sent by a page whose name was pointed at this machine


def front_door(settings: Settings, key: str, *, reason: str | None = None) -> FastAPI:
    """The API and the console of an installation. The key and API keys open both: as a header, and at the sign-in page."""
    scheduler = Scheduler(settings=settings, jobs=Registry(), via="api").acting_as(reason=reason)
    session = EitherSession(BrowserSession(key), ApiKeySession(scheduler))
    access = first_of(KeyAccess(key), ApiKeyAccess(scheduler), session)
    app = create_app(scheduler, access=access, hosts=HOSTS, settings=settings)
    return add_console(app, tenant=settings.tenant, session=session)


def server_of(app: FastAPI, *, grace: int | None = None) -> uvicorn.Server:
    """A server without access logs. At its end, open requests have ``grace`` seconds; None: as long as they take."""
    options: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False, "proxy_headers": False}
    return uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=grace, **options))
