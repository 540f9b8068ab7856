"""Health of a process over HTTP, for whoever supervises it: ``/healthz``, ``/readyz`` and ``/metrics``.

    /healthz    200: the threads that poll do so; 503: one has stopped, or hangs: start the process anew
    /readyz     200: the queue answers and the process takes work; 503: not yet, not now, or not any more
    /metrics    its figures, in Prometheus's text format

It tells nothing of tenants or runs, and asks for no key, so it is on loopback unless an address is given.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from quarterjack.errors import InvalidInput
from quarterjack.extras import install_remedy

_LOOPBACK = "127.0.0.1"
_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_MOST = 65_535
_PATIENCE = 10  # seconds for one request

Check = Callable[[], str | None]  # what is wrong, or None


def parse_address(text: str) -> tuple[str, int]:
    """Host and port from ``8080`` (on loopback) or ``0.0.0.0:8080``. Raises InvalidInput."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > _MOST or (":" in text and not host):
        raise InvalidInput("--health", text, "is not a port or an address", "use 8080, or 0.0.0.0:8080 in a container")
    return host.strip("[]") or _LOOPBACK, int(port)


class HealthServer:
    """Answers from threads of its own. Raises InvalidInput for an address that cannot be served."""

    def __init__(self, address: str, *, alive: Check, ready: Check, figures: Callable[[], bytes] | None = None) -> None:
        """``figures``: the text of ``/metrics``; None: there is none."""
        host, port = parse_address(address)
        checks = {"/healthz": alive, "/readyz": ready}
        try:
            self._server = ThreadingHTTPServer((host, port), _handler(checks, figures))
        except OSError as problem:
            what = f"cannot be served ({problem.strerror or problem})"
            raise InvalidInput("--health", address, what, "give another one, or 0 for any free one") from None
        self._server.daemon_threads = True

    @property
    def port(self) -> int:
        """The port that it answers at."""
        port: int = self._server.server_address[1]
        return port

    def start(self) -> None:
        """Answer from now on."""
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


def _handler(checks: Mapping[str, Check], figures: Callable[[], bytes] | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE
        server_version = "quarterjack"
        sys_version = ""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path in checks:
                problem = checks[path]()
                self._answer(503 if problem else 200, {"ok": problem is None, "problem": problem})
            elif path == "/metrics" and figures is not None:
                self._send(200, _TEXT, figures())
            elif path == "/metrics":
                problem = f"prometheus_client is not installed; {install_remedy('metrics')}"
                self._answer(501, {"ok": False, "problem": problem})
            else:
                self._answer(404, {"ok": False, "problem": "use /healthz, /readyz or /metrics"})

        def _answer(self, status: int, body: Mapping[str, Any]) -> None:
            self._send(status, "application/json", json.dumps(body).encode())

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *given: Any) -> None:
            """Probes come every few seconds: no line for each."""

    return Handler
