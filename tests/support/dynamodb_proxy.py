"""One endpoint of two: DynamoDB's operations go to one emulator, all others to another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from quarterjack.local.loopback import LOOPBACK

OF_ONE_HOP = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding"})


@contextmanager
def one_endpoint(*, dynamodb: str, others: str) -> Iterator[str]:
    """A URL that sends the operations of DynamoDB and its streams to one address, and all others to the other."""
    with _Proxy(dynamodb, others) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), name="dynamodb-proxy", daemon=True).start()
        try:
            yield f"http://{LOOPBACK}:{server.server_port}"
        finally:
            server.shutdown()


class _Proxy(ThreadingHTTPServer):
    """A thread a connection, each with a connection of its own to either side."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, dynamodb: str, others: str) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self._dynamodb, self._others = dynamodb, others

    def upstreams(self) -> dict[bool, HTTPConnection]:
        """By whether a request is for DynamoDB."""
        return {True: HTTPConnection(self._dynamodb, timeout=60), False: HTTPConnection(self._others, timeout=60)}


class _Handler(BaseHTTPRequestHandler):
    """The requests of one connection."""

    server: _Proxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer is one write

    def setup(self) -> None:
        super().setup()
        self.upstreams = self.server.upstreams()

    def finish(self) -> None:
        super().finish()
        for upstream in self.upstreams.values():
            upstream.close()

    def _forward(self) -> None:
        upstream = self.upstreams[self.headers.get("X-Amz-Target", "").startswith("DynamoDB")]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in OF_ONE_HOP}
        try:
            upstream.request(self.command, self.path, body=body, headers=headers)
            answer = upstream.getresponse()
            content = answer.read()
        except (OSError, HTTPException):
            upstream.close()
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in OF_ONE_HOP:
                self.send_header(name, value)
        self.send_header(
            "Content-Length", answer.headers["Content-Length"] if self.command == "HEAD" else str(len(content))
        )
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _forward  # noqa: N815 (the server's names)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the server's name)
        """A failing test shows what it asked."""
