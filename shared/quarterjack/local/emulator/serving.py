"""The server of the emulator: uvicorn, in place of MiniStack's Hypercorn, which takes three times its processor time for a request."""

from __future__ import annotations

import asyncio
import gc
import signal
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from quarterjack.local.snapshots import Asgi
from quarterjack.posix import resource

_IDLE = 75  # seconds that a connection without a request stays, as with MiniStack
_GRACE = 3  # seconds for open requests at the end: a receiver may wait for longer
# Rows and messages stay, and are in no circles. By Python's default every few hundred of them start a search for circles, and each
# quarter more of them a search of all that there are: at 10,000 runs half a second, in which nothing is answered.
_COLLECT = 10_000, 20, 50


def serve(app: Asgi, host: str, port: int) -> None:
    """Answer until SIGTERM or SIGINT, and let the application shut down. Raises SystemExit if it cannot listen."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:  # one for each connection
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.set_threshold(*_COLLECT)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _nothing)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=_Whole,
        loop="asyncio",  # a snapshot forks it
        ws="wsproto",  # MiniStack brings it along
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,  # the application adds it
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=_GRACE,
    )
    uvicorn.Server(config).run()


class _Whole(HttpToolsProtocol):
    """Writes head and body of a response together: each write wakes the client."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(Joined(transport, self.loop))  # type: ignore[arg-type]


class Joined:
    """A transport that writes once in a turn of the loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts = list[bytes]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, part: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(part)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._parts:
            self._transport.write(b"".join(self._parts))
            self._parts.clear()


def _nothing(*_: object) -> None:
    """Uvicorn sends itself the signal that has ended it once more, after all is done."""
