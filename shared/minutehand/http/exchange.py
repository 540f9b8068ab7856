"""Exchange: one request and its answer on a connection of their own, over in time whatever the other end does.

A socket's timeout begins anew with every byte, so an endpoint could hold a worker for ever. A vigil cuts the connection when the
time is over, or the run was cancelled or lost, and whoever waits at the socket wakes up.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from minutehand.errors import LeaseLost, RunCancelled
from minutehand.http.guard import Target

LARGEST = 1024 * 1024  # bytes of an answer that are read
_PART = 64 * 1024  # bytes
_CONNECT = 10.0  # seconds for an address to accept
_LOOK = 1.0  # seconds between looks at whether the run was cancelled: a heartbeat sees it every 20 s


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What an endpoint said."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes  # at most LARGEST
    is_whole: bool  # whether that is all of it


class Vigil:
    """The time that a job's request has, and what ends it sooner. ``ask`` raises RunCancelled or LeaseLost."""

    def __init__(self, seconds: float, ask: Callable[[], None]) -> None:
        self._seconds, self._ask = seconds, ask
        self._end = time.monotonic() + seconds
        self._why: Exception | None = None

    @property
    def left(self) -> float:
        """Seconds; TimeoutError if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._timeout()
        return left

    @contextmanager
    def over(self, sock: socket.socket, origin: str) -> Iterator[None]:
        """Cut the connection if it must not last; what then goes wrong with it is said by its cause."""
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(sock, done), name=f"vigil {origin}", daemon=True)
        watcher.start()
        try:
            yield
        except (OSError, HTTPException, HTTPError) as problem:
            raise (self._why or self._plain(problem, origin)) from problem
        finally:
            done.set()
            watcher.join()
        if self._why is not None:  # an answer that ends with its connection looks whole when that is cut
            raise self._why

    def _watch(self, sock: socket.socket, done: threading.Event) -> None:
        while self._why is None and not done.wait(min(_LOOK, max(self._end - time.monotonic(), 0.0))):
            self._why = self._reason()
        if self._why is not None:
            with contextlib.suppress(OSError):  # not the method of a TLS socket: that one would wait for its reader
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def _reason(self) -> Exception | None:
        if time.monotonic() >= self._end:
            return self._timeout()
        try:
            self._ask()
        except (RunCancelled, LeaseLost) as problem:
            return problem
        return None

    def _plain(self, problem: Exception, origin: str) -> Exception:
        if isinstance(problem, TimeoutError):
            return self._timeout()
        return ConnectionError(f"{origin}: {type(problem).__name__}: {problem}")

    def _timeout(self) -> TimeoutError:
        return TimeoutError(f"no whole answer within {self._seconds:g} s")


def exchange(target: Target, method: str, headers: Mapping[str, str], body: bytes | None, vigil: Vigil) -> Answer:
    """One request and its answer. Raises ConnectionError, TimeoutError, RunCancelled, LeaseLost."""
    connection, sock = _connected(target, vigil)
    try:
        with vigil.over(sock, target.origin):
            connection.timeout = vigil.left  # of what is read; the socket's own is that of what is sent
            sock.settimeout(connection.timeout)
            connection.request(method, target.path, body=body, headers=headers, preload_content=False)
            return _read(connection.getresponse())
    finally:
        connection.close()


def _read(response: BaseHTTPResponse) -> Answer:
    body = b""
    while len(body) <= LARGEST and (part := response.read(_PART, decode_content=False)):
        body += part  # the read after the last one finds whether the end was cut off
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(status=response.status, headers=headers, body=body[:LARGEST], is_whole=len(body) <= LARGEST)


def _connected(target: Target, vigil: Vigil) -> tuple[HTTPConnection, socket.socket]:
    """A connection to the first of the judged addresses that accepts one."""
    problem: Exception | None = None
    for address in target.addresses:
        connection = _connection(target, address, min(_CONNECT, vigil.left))
        try:
            connection.connect()
            return connection, connection.sock
        except (OSError, HTTPError) as refused:
            connection.close()
            problem = refused
    raise ConnectionError(f"{target.origin} cannot be reached: {problem}") from problem


def _connection(target: Target, address: str, timeout: float) -> HTTPConnection:
    if target.scheme == "http":
        return HTTPConnection(address, target.port, timeout=timeout)
    return HTTPSConnection(address, target.port, timeout=timeout, ssl_context=_trust(), server_hostname=target.host)


@cache
def _trust() -> ssl.SSLContext:
    """Certificates and host names are verified, by what the machine trusts and SSL_CERT_FILE."""
    return ssl.create_default_context()
