"""A proxy on loopback between one process and the local cloud: it passes requests on, or does to them what their fate is."""

from __future__ import annotations

import json
import socket
import struct
import threading
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

from tests.support.chaos.fault_injector import REFUSALS, Answer, Asked, Fate, FaultInjector, at_once, error
from tests.support.throttle import Throttle

_OWN = frozenset({"host", "content-length", "connection", "accept-encoding", "transfer-encoding", "keep-alive"})
_OF_THE_BODY = frozenset({"x-amz-crc32", "content-md5"})  # not true any more of an answer that was changed
_DELETE = frozenset({"DeleteMessage", "DeleteMessageBatch"})
_PATIENCE = 60.0  # seconds for which the cloud may take


class _Failed(Exception):
    """The cloud gave no whole answer."""


class Proxy:
    """One process's way to the cloud. Use it as a context manager; ``url`` is what the process takes for the cloud."""

    def __init__(self, upstream: str, mischief: FaultInjector) -> None:
        self.mischief = mischief
        self._upstream = urlsplit(upstream).netloc
        self._own, self._ended = threading.local(), threading.Event()
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="proxy", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, asked: Asked) -> Answer | None:
        """What the process gets; None: its connection breaks."""
        fate = self.mischief.fate_of(asked)
        if asked.operation in _DELETE:
            self.mischief.deleted(asked)
        match fate:
            case Fate.RESET | Fate.CUT:
                return None
            case _ if fate in REFUSALS:
                return error(asked, fate)
            case Fate.ITEMS:
                return self._in_part(asked, self.mischief.throttle_of(asked))
            case Fate.DELAY:
                self._ended.wait(self.mischief.chances.held)
        answer = self._receive(asked) if asked.operation == "ReceiveMessage" else self._forward(asked)
        if fate is Fate.HOLD:
            self._ended.wait(self.mischief.chances.held)
        return answer if fate is Fate.PASS else None

    def _receive(self, asked: Asked) -> Answer | None:
        """Messages, now and then one that was delivered before: at once, so that it meets whoever has it."""
        again = self.mischief.again(asked)
        answer = self._forward(asked if again is None else at_once(asked))
        if answer is None or answer.status != 200:
            return answer
        return self.mischief.delivered(asked, answer, again)

    def hang_up(self) -> None:
        """The process has left this thread's connection: leave the cloud's."""
        self._connection().close()

    def _in_part(self, asked: Asked, throttle: Throttle) -> Answer | None:
        """A batch of which some items are not even passed on."""
        given: dict[str, Any] = json.loads(asked.body)
        answer: Answer | None = Answer(status=200, headers={}, body=b"")

        def send(passed: dict[str, Any]) -> dict[str, Any]:
            nonlocal answer
            answer = self._forward(replace(asked, body=json.dumps(passed).encode()))
            if answer is None or answer.status != 200:
                raise _Failed
            parsed: dict[str, Any] = json.loads(answer.body)
            return parsed

        try:
            parsed = throttle(given, send)
        except _Failed:
            return answer
        assert answer is not None
        headers = {name: value for name, value in answer.headers.items() if name not in _OF_THE_BODY}
        return Answer(status=200, headers=headers, body=json.dumps(parsed).encode())

    def _forward(self, asked: Asked) -> Answer | None:
        """The cloud's answer; None if it gave none."""
        headers = {name: value for name, value in asked.headers.items() if name not in _OWN}
        connection = self._connection()
        try:
            connection.request(asked.method, asked.path, body=asked.body, headers=headers)
            response = connection.getresponse()
            body = response.read()
        except (OSError, HTTPException):
            connection.close()  # it opens again with the next request
            return None
        given = {name.lower(): value for name, value in response.getheaders() if name.lower() not in _OWN}
        return Answer(status=response.status, headers=given, body=body)

    def _connection(self) -> HTTPConnection:
        """This thread's, kept open as the process keeps the one that it serves."""
        kept: HTTPConnection | None = getattr(self._own, "connection", None)
        if kept is None:
            kept = self._own.connection = HTTPConnection(self._upstream, timeout=_PATIENCE)
        return kept


class _Server(ThreadingHTTPServer):
    """A thread a connection."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, proxy: Proxy) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.proxy = proxy

    def shutdown_request(self, request: Any) -> None:
        """Close without a farewell, so that a connection that lingers for nothing is reset."""
        self.close_request(request)

    def handle_error(self, *_: object) -> None:
        """A process that was killed leaves broken connections behind."""


class _Handler(BaseHTTPRequestHandler):
    """The requests of one connection: DynamoDB and SQS know POST alone."""

    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer is one write

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.proxy.answer(Asked(method=self.command, path=self.path, headers=headers, body=body))
        if answer is None:
            self._reset()
        else:
            self._send(answer)

    def finish(self) -> None:
        super().finish()
        self.server.proxy.hang_up()

    def _send(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in _OWN:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Its journal says what matters."""
