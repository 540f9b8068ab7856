"""Connections to one URL, kept open and used again, each by one request at a time."""

from __future__ import annotations

import base64
import socket
import ssl
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from quarterjack.aws.errors import ConnectFailed, NoResponse, untrusted
from quarterjack.aws.http_connection import Connection, HttpResponse, host_of
from quarterjack.concurrency.forks import this_process
from quarterjack.errors import Misconfigured

CONNECT_TIMEOUT = 3.0  # seconds
MOST_IDLE = 50  # connections kept open
IDLE_TIMEOUT = 20.0  # seconds: load balancers and NAT gateways forget connections, DynamoDB closes them


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
        self._is_secure, self._host = parts.scheme == "https", parts.hostname or ""
        self._port = parts.port or (443 if self._is_secure else 80)
        self._proxy = None if proxy is None else _Proxy.parsed(proxy)
        path, more = quote(parts.path or "/", safe="/~%"), dict[str, str]()
        if self._proxy is not None and not self._is_secure:
            path, more = url, self._proxy.headers
        self._begin = _head(f"POST {path}", {"Host": host_of(parts), "Accept-Encoding": "identity", **more})
        self._idle: deque[Connection] = deque()
        self._process = this_process()
        weakref.finalize(self, _close, self._idle)

    def post(self, headers: dict[str, str], body: bytes, seconds: float) -> HttpResponse:
        """One request, answered within ``seconds`` in all. Raises NoResponse, ConnectFailed; Misconfigured for a certificate."""
        request = f"{self._begin}{_lines(headers)}\r\n".encode("latin-1") + body
        deadline = self._clock() + seconds
        connection = self._taken() or self._connected(seconds)
        try:
            connection.deadline = deadline
            response, is_kept = connection.exchange(request)
        except OSError as problem:
            connection.close()
            _close(self._idle)  # what ended this connection, such as a freeze, has ended its siblings too
            raise NoResponse(f"{self.url}: {str(problem) or type(problem).__name__}") from problem
        except BaseException:
            connection.close()  # the response may still come
            raise
        if is_kept and len(self._idle) < MOST_IDLE:
            connection.idle_since = self._clock()
            self._idle.append(connection)
        else:
            connection.close()
        return response

    def _taken(self) -> Connection | None:
        """An idle connection that is still open."""
        if self._process != this_process():
            _close(self._idle)
            self._process = this_process()
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was faster
                return None
            if self._clock() - connection.idle_since <= IDLE_TIMEOUT and not connection.is_readable:
                return connection
            connection.close()
        return None

    def _connected(self, seconds: float) -> Connection:
        timeout, secure = min(CONNECT_TIMEOUT, seconds), self._trust() if self._is_secure else None
        place = (self._host, self._port) if self._proxy is None else (self._proxy.host, self._proxy.port)
        try:
            connection = Connection(socket.create_connection(place, timeout), self._clock)
            try:
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if secure is not None:
                    connection.deadline = self._clock() + timeout
                    if self._proxy is not None:
                        self._open_tunnel(connection, self._proxy)
                    connection.use(secure.wrap_socket(connection.sock, server_hostname=self._host))
            except BaseException:
                connection.close()
                raise
        except ssl.SSLCertVerificationError as problem:
            raise untrusted(self.url, problem) from problem
        except OSError as problem:
            raise ConnectFailed(f"could not connect to {self.url}: {problem}") from problem
        return connection

    def _open_tunnel(self, connection: Connection, proxy: _Proxy) -> None:
        place = f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"
        connection.send(f"{_head(f'CONNECT {place}', {'Host': place, **proxy.headers})}\r\n".encode("latin-1"))
        _, status, _ = connection.read_head()
        if not 200 <= status < 300:
            raise ConnectionError(f"the proxy refused the tunnel: HTTP {status}")


def _head(line: str, headers: Mapping[str, str]) -> str:
    """The beginning of a request, to which further headers are added."""
    return f"{line} HTTP/1.1\r\n{_lines(headers)}"


def _lines(headers: Mapping[str, str]) -> str:
    lines = "".join([f"{name}: {content}\r\n" for name, content in headers.items()])
    if lines.count("\n") != len(headers):
        raise Misconfigured(
            "a header of a request to AWS has a line break in it: AWS_ACCESS_KEY_ID and AWS_SESSION_TOKEN have to be one line each"
        )
    return lines


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
                "AWS in NO_PROXY, or set QUARTERJACK_AWS_CLIENT=botocore"
            )
        if parts.username is None:
            return cls(parts.hostname, parts.port or 80, {})
        given = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        token = base64.b64encode(given.encode()).decode()
        return cls(parts.hostname, parts.port or 80, {"Proxy-Authorization": f"Basic {token}"})


def _close(connections: deque[Connection]) -> None:
    while connections:
        try:
            connections.pop().close()
        except IndexError:
            return
