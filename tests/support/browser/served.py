"""An ASGI application, served by uvicorn on a free port of the loopback while a test visits it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from quarterjack.local.loopback import LOOPBACK
from uvicorn import Config, Server

START_TIMEOUT = 30.0  # seconds; 0.1 are usual


@contextmanager
def served(application: Any) -> Iterator[str]:
    """The URL, without a slash at its end."""
    started = threading.Event()

    class Announced(Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    server = Announced(Config(application, host=LOOPBACK, port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, name="served", daemon=True)
    thread.start()
    try:
        assert started.wait(START_TIMEOUT), "the application's server does not start"
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://{LOOPBACK}:{port}"
    finally:
        server.should_exit = True
        thread.join(START_TIMEOUT)
