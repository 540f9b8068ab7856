"""``quarterjack serve``: the API, and the console beside it, on this machine alone, for whoever has the key that is printed once."""

from __future__ import annotations

from typing import Any

import uvicorn
from fastapi import FastAPI

from quarterjack.sdk.scheduler import Scheduler
from quarterjack.settings import Settings
from quarterjack.web.actors import Access, KeyAccess, closed
from quarterjack.web.app import create_app
from quarterjack.web.authentication import ApiKeyAccess, first_of

HOSTS = ("127.0.0.1", "localhost")  # other names in Host are of a page that had its name point here


def local_app(scheduler: Scheduler, *, settings: Settings, key: str, also: Access = closed) -> FastAPI:
    """The API for whoever sends the key, or an API key, or whom ``also`` finds."""
    access = first_of(KeyAccess(key), ApiKeyAccess(scheduler), also)
    return create_app(scheduler, access=access, hosts=HOSTS, settings=settings)


def server_of(app: FastAPI, *, grace: int | None = None) -> uvicorn.Server:
    """A server without lines for each request. Requests under way have ``grace`` seconds at its end; None: as long as they take."""
    options: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False, "proxy_headers": False}
    return uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=grace, **options))
