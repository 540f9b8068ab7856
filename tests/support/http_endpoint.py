"""A real HTTP server on loopback that answers as a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Reply = tuple[int, Mapping[str, str], bytes]


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Endpoint:
    """The server."""

    url: str
    asked: list[Asked] = field(default_factory=list)
    replies: list[Reply | Callable[[Handler], None]] = field(default_factory=list)  # the last one is repeated
    released: threading.Event = field(default_factory=threading.Event)  # set at the end: what hangs lets go

    def answers(self, *replies: Reply | int | Callable[[Handler], None]) -> Endpoint:
        self.replies = [(reply, {}, b"") if isinstance(reply, int) else reply for reply in replies]
        return self

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    endpoint: Endpoint
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        endpoint = self.endpoint
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        endpoint.asked.append(Asked(self.command, self.path, headers, body))
        reply = endpoint.replies[min(len(endpoint.asked), len(endpoint.replies)) - 1]
        if callable(reply):
            self.close_connection = True
            reply(self)
            return
        status, given, content = reply
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **given}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 (the server's names)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the server's name)
        """Tests read no access log."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is expected."""


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Endpoint]:
    """A server on a port of its own, with TLS if a context is given."""
    handler = type("Handler_", (Handler,), {})
    server = _Server(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    scheme = "http" if context is None else "https"
    endpoint = Endpoint(f"{scheme}://127.0.0.1:{server.server_port}", replies=[(200, {}, b"")])
    handler.endpoint = endpoint  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
