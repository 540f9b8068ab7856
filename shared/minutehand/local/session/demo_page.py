"""A web page on loopback, for the example job that checks a page."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from minutehand.local.cloud import LOOPBACK

TEXT = "All is well."
_PAGE = f"<!doctype html><title>Minutehand</title><p>{TEXT}\n".encode()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(_PAGE)))
        self.end_headers()
        self.wfile.write(_PAGE)

    def log_message(self, *_: object) -> None:
        """Silent: the worker's log has it."""


class DemoPage:
    """A server of the page, as a context manager. ``port`` 0, and a port in use, stand for any free port."""

    def __init__(self, port: int = 0) -> None:
        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), _Handler)
        except OSError:
            self._server = ThreadingHTTPServer((LOOPBACK, 0), _Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="page", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
