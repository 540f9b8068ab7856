"""Connections to one URL: ``http.client``'s, kept open and used again, each by one request at a time.

All waits of a request end at one deadline: a server that sends a byte now and then cannot hold it longer.
"""

from __future__ import annotations

import base64
import io
import select
import socket
import ssl
import time
import weakref
from collections import deque
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote, urlsplit

from quarterjack.aws.errors import ConnectFailed, NoResponse, untrusted
from quarterjack.concurrency.forks import this_process
from quarterjack.errors import Misconfigured

_BUFFER = 1 << 14  # bytes: a record of TLS


class DeadlineSocket:
    """The methods of a socket that ``http.client`` needs; each wait ends at ``deadline``, in seconds of ``clock``."""

    def __init__(self, sock: socket.socket, clock: Callable[[], float] = time.monotonic) -> None:
        self._sock, self._clock = sock, clock
        self.deadline = float("inf")
        self._is_read, self._is_closed = False, False
        self._pending: list[bytes] = []  # of the present request

    def sendall(self, data: bytes) -> None:
        """Send it, once a response is asked for: ``http.client`` sends headers and body apart, which costs a packet more."""
        self._pending.append(data)

    def receive_into(self, buffer: Any) -> int:
        """Read what has come, at least a byte; 0 if the other side has closed. Raises OSError."""
        self._limit()
        return self._sock.recv_into(buffer)

    def makefile(self, _: str) -> io.BufferedReader:
        """Send the request. A reader of its response; until it is closed ``close`` waits, as ``http.client`` expects of sockets."""
        left = memoryview(b"".join(self._pending))
        self._pending.clear()
        while left:
            self._limit()
            left = left[self._sock.send(left) :]
        self._is_read = True
        return io.BufferedReader(_Incoming(self), _BUFFER)

    def close(self) -> None:
        """Close the connection."""
        self._is_closed = True
        if not self._is_read:
            self._sock.close()

    def end_of_reading(self) -> None:
        """Its reader was closed."""
        self._is_read = False
        if self._is_closed:
            self._sock.close()

    @property
    def is_readable(self) -> bool:
        """Whether something has come, or the other side has closed: both end the use of an idle connection."""
        if not hasattr(select, "poll"):  # Windows
            return bool(select.select([self._sock], [], [], 0)[0])
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))

    def _limit(self) -> None:
        left = self.deadline - self._clock()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        self._sock.settimeout(left)


class _Incoming(io.RawIOBase):
    def __init__(self, sock: DeadlineSocket) -> None:
        self._sock = sock

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._sock.end_of_reading()

    def readinto(self, buffer: Any) -> int:
        return self._sock.receive_into(buffer)


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
        """One request, answered within ``seconds`` in all. Raises NoResponse, ConnectFailed; Misconfigured for a certificate."""
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
        except ssl.SSLCertVerificationError as problem:
            raise untrusted(self.url, problem) from problem
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
                "AWS in NO_PROXY, or set QUARTERJACK_AWS_CLIENT=botocore"
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
