"""A socket whose waits all end at one deadline: a server that sends a byte now and then cannot extend it."""

from __future__ import annotations

import io
import select
import socket
import time
from collections.abc import Callable
from typing import Any

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
