"""Exchange: one request and its response on a connection of its own, within a time limit that the endpoint cannot extend.

A socket's timeout restarts with every byte, so an endpoint that sends slowly could hold a worker for ever. A watchdog thread shuts
the connection down when the time is over, the run was cancelled, or its lease is lost. The thread that reads then fails at once.
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

from quarterjack.errors import LeaseLost, RunCancelled
from quarterjack.ready_jobs.http.guard import CheckedAddress

LARGEST = 1024 * 1024  # bytes of a response that are read
_PART = 64 * 1024  # bytes
_CONNECT = 10.0  # seconds to establish a connection to one address
_LOOK = 1.0  # seconds between checks for a cancellation; a heartbeat learns of it every 20 s


@dataclass(frozen=True, kw_only=True)
class JobResponse:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes  # at most LARGEST
    is_whole: bool  # whether the body is complete


class Watchdog:
    """The time limit of a job's request. ``ask`` raises RunCancelled or LeaseLost if the request must end sooner."""

    def __init__(self, seconds: float, ask: Callable[[], None]) -> None:
        self._seconds, self._ask = seconds, ask
        self._end = time.monotonic() + seconds
        self._why: Exception | None = None

    @property
    def left(self) -> float:
        """Seconds that are left. Raises TimeoutError if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._timeout()
        return left

    @contextmanager
    def guarding(self, sock: socket.socket, target: CheckedAddress) -> Iterator[None]:
        """Shut the connection down at the limit. The reason for the shutdown then replaces the errors of the connection."""
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(sock, done), name=f"watchdog {target.origin}", daemon=True)
        watcher.start()
        try:
            yield
        except TimeoutError:
            raise (self._why or self._timeout()) from None
        except (OSError, HTTPException, HTTPError) as problem:
            raise (self._why or ConnectionError(f"{target.origin}: {target.told(problem)}")) from None
        finally:
            done.set()
            watcher.join()
        if self._why is not None:  # a response without a length looks complete when its connection is shut down
            raise self._why

    def _watch(self, sock: socket.socket, done: threading.Event) -> None:
        while self._why is None and not done.wait(min(_LOOK, max(self._end - time.monotonic(), 0.0))):
            try:
                self._ask()
            except (RunCancelled, LeaseLost) as problem:
                self._why = problem
            if time.monotonic() >= self._end:
                self._why = self._timeout()
        if self._why is not None:
            with contextlib.suppress(OSError):
                # A TLS socket's own shutdown method would wait for the thread that reads.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def _timeout(self) -> TimeoutError:
        return TimeoutError(f"no complete response within {self._seconds:g} s")


def exchange(
    target: CheckedAddress, method: str, headers: Mapping[str, str], body: bytes | None, watchdog: Watchdog
) -> JobResponse:
    """Send one request and read its response. Raises ConnectionError, TimeoutError, RunCancelled, LeaseLost."""
    connection, sock = _connect(target, watchdog)
    try:
        with watchdog.guarding(sock, target):
            connection.timeout = watchdog.left  # for reading; the socket's own is for sending
            sock.settimeout(connection.timeout)
            connection.request(method, target.path, body=body, headers=headers, preload_content=False)
            response, read = connection.getresponse(), b""
            while len(read) <= LARGEST and (part := response.read(_PART, decode_content=False)):
                read += part  # one read past the limit shows whether the body is complete
    finally:
        connection.close()
    found = {name.lower(): value for name, value in response.headers.items()}
    return JobResponse(status=response.status, headers=found, body=read[:LARGEST], is_whole=len(read) <= LARGEST)


def _connect(target: CheckedAddress, watchdog: Watchdog) -> tuple[HTTPConnection, socket.socket]:
    problem: Exception | None = None
    for address in target.addresses:
        connection = _connection(target, address, min(_CONNECT, watchdog.left))
        try:
            connection.connect()
            return connection, connection.sock
        except (OSError, HTTPError) as refused:
            connection.close()
            problem = refused
    raise ConnectionError(f"{target.origin} cannot be reached: {target.told(problem)}") from None


def _connection(target: CheckedAddress, address: str, timeout: float) -> HTTPConnection:
    if target.scheme == "http":
        return HTTPConnection(address, target.port, timeout=timeout)
    return HTTPSConnection(address, target.port, timeout=timeout, ssl_context=_trust(), server_hostname=target.host)


@cache
def _trust() -> ssl.SSLContext:
    """Certificates and host names are verified against the machine's trust store, or SSL_CERT_FILE."""
    return ssl.create_default_context()
