"""Connections to one URL: ``http.client``'s, kept open and used again, each by one request at a time."""

from __future__ import annotations

import base64
import ssl
import time
import weakref
from collections import deque
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import NamedTuple, Protocol
from urllib.parse import quote, unquote, urlsplit

from minutehand.aws.deadline import DeadlineSocket
from minutehand.aws.errors import ConnectFailed, NoResponse
from minutehand.errors import Misconfigured
from minutehand.settings import this_process

CONNECT_TIMEOUT = 3.0  # seconds
MOST_IDLE = 50  # connections kept open
IDLE_TIMEOUT = 20.0  # seconds: load balancers and NAT gateways forget connections, DynamoDB closes them


class Headers(Protocol):
    """The headers of a response."""

    def get(self, name: str, /) -> str | None: ...


class HttpResponse(NamedTuple):
    """One HTTP response, read to its end."""

    status: int
    headers: Headers
    content: bytes


class _Connection(NamedTuple):
    http: HTTPConnection
    sock: DeadlineSocket
    idle_since: float  # seconds of the clock

    def close(self) -> None:
        self.http.close()


class Connections:
    """The connections to one URL, the latest used first. ``trust`` makes the TLS context, ``proxy`` is a proxy's URL.

    There is no lock: idle connections are in a deque, whose operations are atomic. A forked child closes its copies of its parent's
    connections before it makes its own.
    """

    def __init__(
        self,
        url: str,
        trust: Callable[[], ssl.SSLContext],
        *,
        proxy: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url, self._trust, self._clock = url, trust, clock
        parts = urlsplit(url)
        self._is_secure, self._host, self._port = parts.scheme == "https", parts.hostname or "", parts.port
        self._path = quote(parts.path or "/", safe="/~%")
        self._proxy = None if proxy is None else _Proxy.parsed(proxy)
        self._idle: deque[_Connection] = deque()
        self._process = this_process()
        weakref.finalize(self, _close, self._idle)

    def post(self, headers: dict[str, str], body: bytes, seconds: float) -> HttpResponse:
        """One request, answered within ``seconds`` in all. Raises NoResponse, ConnectFailed."""
        deadline = self._clock() + seconds
        connection = self._taken() or self._connected(seconds)
        try:
            response, is_kept = self._exchanged(connection, headers, body, deadline)
        except (OSError, HTTPException) as problem:
            connection.close()
            _close(self._idle)  # what ended this connection, such as a freeze, has ended its siblings too
            raise NoResponse(f"{self.url}: {str(problem) or type(problem).__name__}") from problem
        except BaseException:
            connection.close()  # the response may still come
            raise
        if is_kept and len(self._idle) < MOST_IDLE:
            self._idle.append(connection._replace(idle_since=self._clock()))
        else:
            connection.close()
        return response

    def _exchanged(
        self, connection: _Connection, headers: dict[str, str], body: bytes, deadline: float
    ) -> tuple[HttpResponse, bool]:
        connection.sock.deadline = deadline
        path = self._path
        if self._proxy is not None and not self._is_secure:
            path, headers = self.url, headers | self._proxy.headers
        connection.http.request("POST", path, body, headers)
        response = connection.http.getresponse()
        has_end = response.length is not None or response.chunked
        content = response.read()
        if not has_end and response.status < 300:
            raise HTTPException("the response does not say how long it is: half of it may be missing")
        return HttpResponse(response.status, response.headers, content), has_end and not response.will_close

    def _taken(self) -> _Connection | None:
        """An idle connection that is still open."""
        if self._process != this_process():
            _close(self._idle)
            self._process = this_process()
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                return None
            if self._clock() - connection.idle_since <= IDLE_TIMEOUT and not connection.sock.is_readable:
                return connection
            connection.close()
        return None

    def _connected(self, seconds: float) -> _Connection:
        timeout = min(CONNECT_TIMEOUT, seconds)
        host, port = (self._proxy.host, self._proxy.port) if self._proxy else (self._host, self._port)
        try:
            http = HTTPSConnection(host, port, timeout=timeout, context=self._trust()) if self._is_secure else None
            connection = http or HTTPConnection(host, port, timeout=timeout)
            if self._proxy is not None and self._is_secure:
                connection.set_tunnel(self._host, self._port, self._proxy.headers)
            connection.connect()
        except (OSError, HTTPException) as problem:
            raise ConnectFailed(f"could not connect to {self.url}: {problem}") from problem
        sock = DeadlineSocket(connection.sock, self._clock)
        connection.sock = sock  # it has all that http.client calls
        return _Connection(connection, sock, 0.0)


class _Proxy(NamedTuple):
    host: str
    port: int
    headers: dict[str, str]

    @classmethod
    def parsed(cls, url: str) -> _Proxy:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme != "http" or not parts.hostname:
            raise Misconfigured(
                f"HTTPS_PROXY or HTTP_PROXY={parts.scheme}://{parts.hostname}: only proxies at http:// are supported; use one, name "
                "AWS in NO_PROXY, or set MINUTEHAND_AWS_CLIENT=botocore"
            )
        if parts.username is None:
            return cls(parts.hostname, parts.port or 80, {})
        given = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        token = base64.b64encode(given.encode()).decode()
        return cls(parts.hostname, parts.port or 80, {"Proxy-Authorization": f"Basic {token}"})


def _close(connections: deque[_Connection]) -> None:
    while connections:
        try:
            connections.pop().close()
        except IndexError:
            return
