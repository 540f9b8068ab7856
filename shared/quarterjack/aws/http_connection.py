"""HTTP/1.1 over one connection, a request at a time.

All waits of a request end at one deadline: a server that sends a byte now and then cannot hold it longer. ``http.client`` is not used,
because it parses the headers of a response as those of an e-mail, which takes most of the processor time of a request.
"""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol
from urllib.parse import SplitResult

_PIECE = 1 << 16  # bytes that are read at once
_LONGEST = 1 << 16  # bytes of a response's headers
_SLACK = 0.05  # seconds by which a wait may pass the deadline: a timeout that is near enough is not set again
_LINE, _BLANK = b"\r\n", b"\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: [^\r\n]*)?")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?")  # of a chunk


_DEFAULT_PORT = {"http": ":80", "https": ":443"}


def host_of(parts: SplitResult) -> str:
    """The value of the header ``Host`` for a URL, as it is signed."""
    host = parts.netloc.lower().rpartition("@")[2].removesuffix(_DEFAULT_PORT.get(parts.scheme, ""))
    return host if host.isascii() else host.encode("idna").decode()


class Headers(Protocol):
    """The headers of a response, by their names in lower case."""

    def get(self, name: str, /) -> str | None: ...


class HttpResponse(NamedTuple):
    """One HTTP response, read to its end."""

    status: int
    headers: Headers
    content: bytes


class Connection:
    """An open connection. Each wait ends at the deadline of the present request, in seconds of ``clock``. Errors are OSErrors."""

    def __init__(self, sock: socket.socket, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.deadline = float("inf")
        self.idle_since = 0.0  # seconds of the clock
        self._got = bytearray()  # and not yet read as part of a response
        self.use(sock)

    def use(self, sock: socket.socket) -> None:
        """Go on over this socket: TLS over the one before."""
        self.sock, self._timeout = sock, float("inf")
        self._poll = None
        if hasattr(select, "poll"):  # not on Windows
            self._poll = select.poll()
            self._poll.register(sock, select.POLLIN)

    def exchange(self, request: bytes) -> tuple[HttpResponse, bool]:
        """Send a request and read its response; and whether the connection can be used again."""
        self.send(request)
        version, status, headers = self.read_head()
        while status < 200:  # an interim response
            version, status, headers = self.read_head()
        if status in (204, 304):
            content, has_end = b"", True
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            content, has_end = self._read_chunks(), True
        else:
            length = headers.get("content-length", "")
            has_end = length.isascii() and length.isdigit()
            content = self._read(int(length)) if has_end else self._read_all()
        if not has_end and status < 300:
            raise ConnectionError("the response does not say how long it is: half of it may be missing")
        said = headers.get("connection", "").lower()
        is_kept = "close" not in said if version == b"1" else "keep-alive" in said
        return HttpResponse(status, headers, content), has_end and is_kept and not self._got

    def send(self, data: bytes) -> None:
        """Send it all."""
        left = memoryview(data)
        while left:
            self._limit()
            left = left[self.sock.send(left) :]

    def read_head(self) -> tuple[bytes, int, Mapping[str, str]]:
        """The version, the status and the headers of a response."""
        first, *lines = self._read_to(_BLANK).split(_LINE)
        status = _STATUS.fullmatch(first)
        if status is None:
            raise ConnectionError(f"the response is not HTTP: {first[:80]!r}")
        fields = (line.decode("latin-1").partition(":") for line in lines)
        return status[1], int(status[2]), {name.lower(): content.strip() for name, _, content in fields}

    def receive(self, most: int = _PIECE) -> bytes:
        """What has come, at least a byte; nothing if the other side has closed."""
        self._limit()
        return self.sock.recv(most)

    def close(self) -> None:
        """Close it."""
        self.sock.close()

    @property
    def is_readable(self) -> bool:
        """Whether something has come, or the other side has closed: both end the use of an idle connection."""
        return bool(self._poll.poll(0) if self._poll else select.select([self.sock], [], [], 0)[0])

    def _limit(self) -> None:
        left = self.deadline - self._clock()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        if not left <= self._timeout <= left + _SLACK:  # to set it is a call of the system
            self.sock.settimeout(left)
            self._timeout = left

    def _await_more(self) -> None:
        piece = self.receive()
        if not piece:
            raise ConnectionError("the other side has closed before the end of its response")
        self._got += piece

    def _read(self, size: int) -> bytes:
        while len(self._got) < size:
            self._await_more()
        found = bytes(self._got[:size])
        del self._got[:size]
        return found

    def _read_to(self, mark: bytes) -> bytes:
        """What comes before the mark, which is read, too."""
        while (end := self._got.find(mark)) < 0:
            if len(self._got) > _LONGEST:
                raise ConnectionError("the headers of the response have no end")
            self._await_more()
        return self._read(end + len(mark))[:end]

    def _read_chunks(self) -> bytes:
        found = []
        while True:
            size = _SIZE.fullmatch(self._read_to(_LINE))
            if size is None:
                raise ConnectionError("a chunk of the response does not say how long it is")
            if not int(size[1], 16):
                break
            found.append(self._read(int(size[1], 16)))
            if self._read(len(_LINE)) != _LINE:
                raise ConnectionError("a chunk of the response is longer than it says")
        while self._read_to(_LINE):  # fields after the content
            pass
        return b"".join(found)

    def _read_all(self) -> bytes:
        while piece := self.receive():
            self._got += piece
        return self._read(len(self._got))
