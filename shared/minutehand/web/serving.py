"""``minutehand serve``: the API, and the console beside it, on this machine alone, for whoever has the key that is printed once."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from contextlib import closing

import uvicorn
from fastapi import FastAPI

from minutehand.errors import InvalidInput
from minutehand.sdk.scheduler import Scheduler
from minutehand.settings import Settings
from minutehand.web.actors import Access, KeyAccess, closed
from minutehand.web.app import create_app
from minutehand.web.authentication import ApiKeyAccess, first_of

LOOPBACK = "127.0.0.1"
HOSTS = (LOOPBACK, "localhost")  # other names in Host are of a page that had its name point here
_KEY = "mhk_local_"  # so that scanners of secrets find it
_BYTES = 32  # of chance in a key


def new_key() -> str:
    """A key for one start of the server."""
    return _KEY + secrets.token_urlsafe(_BYTES)


def local_app(scheduler: Scheduler, *, settings: Settings, key: str, also: Access = closed) -> FastAPI:
    """The API for whoever sends the key, or an API key, or whom ``also`` finds."""
    access = first_of(KeyAccess(key), ApiKeyAccess(scheduler), also)
    return create_app(scheduler, access=access, hosts=HOSTS, settings=settings)


def serve(app: FastAPI, *, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve an application on loopback until SIGINT or SIGTERM; requests under way end. ``on_ready`` gets the URL; port 0 is any free one.

    Raises InvalidInput if the port is taken.
    """
    config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False, proxy_headers=False)
    with closing(_bound(port)) as listening:
        on_ready(f"http://{LOOPBACK}:{listening.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listening])


def _bound(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen()
    except OSError as problem:
        listening.close()
        remedy = "give another one, or 0 for any free one"
        raise InvalidInput("--port", port, f"cannot be served ({problem.strerror})", remedy) from None
    return listening
