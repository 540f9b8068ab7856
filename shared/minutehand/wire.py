"""Wire: one POST over a connection that is kept, and its answer, as HTTP/1.1 has them.

``http.client`` parses headers as those of an e-mail and writes each through a check of its own: 85 µs of CPU a request where this
takes 15, and in a process that has waited for its caches three times as much of both. What it knows and services say is known here
too: a length, or chunks. A success that says neither ends with its connection, and so may be half of one: it is none. An error may
end so: its status is known.
"""

from __future__ import annotations

import re
import select
import socket
import ssl
from typing import NamedTuple

_PIECE = 1 << 16  # bytes asked of the socket at once
_LONGEST = 1 << 16  # bytes of headers, or of a chunk's first line
_NO_BODY = (204, 304)
_NUMBERS = {10: re.compile("[0-9]{1,15}"), 16: re.compile("[0-9A-Fa-f]{1,12}")}  # by base: int() takes more than these
_DEFAULT_PORT = {False: 80, True: 443}  # by whether it is secure


class Garbled(Exception):
    """The other side hung up, or what it says is no HTTP."""


class Said(NamedTuple):
    """One answer. The names of its headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes
    keeps: bool  # whether the connection can be used again


class Wire:
    """A connection to one server, for one path of it. Raises OSError where there is none."""

    def __init__(
        self, host: str, port: int | None, path: str, *, timeouts: tuple[float, float], context: ssl.SSLContext | None
    ) -> None:
        port = port or _DEFAULT_PORT[context is not None]
        self._begin = f"POST {path} HTTP/1.1\r\nHost: {_named(host, port, context)}\r\nAccept-Encoding: identity\r\n"
        to_connect, to_answer = timeouts  # seconds
        self.sock = socket.create_connection((host, port), to_connect)
        try:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                self.sock = context.wrap_socket(self.sock, server_hostname=host)
        except OSError:
            self.sock.close()
            raise
        self.sock.settimeout(to_answer)

    def close(self) -> None:
        """Hang up."""
        self.sock.close()

    def is_dropped(self) -> bool:
        """Whether the other side has closed it: there is something to read, where nothing was asked."""
        waiting = select.poll()
        waiting.register(self.sock, select.POLLIN)
        return bool(waiting.poll(0))

    def post(self, headers: dict[str, str], body: bytes) -> Said:
        """One request; ``headers`` say how long ``body`` is. Raises OSError, Garbled."""
        fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        self.sock.sendall(f"{self._begin}{fields}\r\n".encode("latin-1") + body)
        reader = _Reader(self.sock)
        while True:
            version, status, fields_said = _head(reader.upto(b"\r\n\r\n"))
            if status >= 200:  # what comes before is said in the meantime
                break
        ends = False
        if status in _NO_BODY:
            content = b""
        elif fields_said.get("transfer-encoding", "").lower() == "chunked":
            content = _chunks(reader)
        elif (length := fields_said.get("content-length")) is not None:
            content = reader.exactly(_number(length, 10))
        elif status < 300:
            raise Garbled("it does not say how long its answer is")
        else:
            content, ends = reader.rest(), True
        closes = (
            ends or reader.has_more or version != "HTTP/1.1" or "close" in fields_said.get("connection", "").lower()
        )
        return Said(status, fields_said, content, keeps=not closes)


class _Reader:
    """What comes from a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self._got = sock, b""

    @property
    def has_more(self) -> bool:
        """Whether more has come than was asked for."""
        return bool(self._got)

    def upto(self, mark: bytes) -> bytes:
        """All that comes before a mark."""
        while (end := self._got.find(mark)) < 0:
            if len(self._got) > _LONGEST:
                raise Garbled("its headers do not end")
            self._got += self._more()
        found, self._got = self._got[:end], self._got[end + len(mark) :]
        return found

    def exactly(self, size: int) -> bytes:
        """So many bytes."""
        pieces, missing = [self._got], size - len(self._got)
        while missing > 0:
            pieces.append(self._more())
            missing -= len(pieces[-1])
        whole = b"".join(pieces)
        self._got = whole[size:]
        return whole[:size]

    def rest(self) -> bytes:
        """All that comes until the other side hangs up."""
        pieces = [self._got]
        while piece := self._sock.recv(_PIECE):
            pieces.append(piece)
        self._got = b""
        return b"".join(pieces)

    def _more(self) -> bytes:
        piece = self._sock.recv(_PIECE)
        if not piece:
            raise Garbled("it hung up before its answer was whole")
        return piece


def _head(said: bytes) -> tuple[str, int, dict[str, str]]:
    """Version, status and headers."""
    first, *lines = said.decode("latin-1").split("\r\n")
    version, _, status = first.partition(" ")
    if not version.startswith("HTTP/1."):
        raise Garbled(f"it says {first[:40]!r}")
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip()
        if name == "content-length" and fields.get(name, value) != value:
            raise Garbled("it says two lengths")
        fields[name] = value
    return version, _number(status[:3], 10), fields


def _chunks(reader: _Reader) -> bytes:
    pieces = []
    while size := _number(reader.upto(b"\r\n").partition(b";")[0].rstrip().decode("latin-1"), 16):
        pieces.append(reader.exactly(size))
        if reader.upto(b"\r\n"):
            raise Garbled("a chunk is longer than it says")
    while reader.upto(b"\r\n"):  # headers that come after
        pass
    return b"".join(pieces)


def _number(text: str, base: int) -> int:
    if _NUMBERS[base].fullmatch(text) is None:
        raise Garbled(f"it says {text[:40]!r} where a number should be")
    return int(text, base)


def _named(host: str, port: int, context: ssl.SSLContext | None) -> str:
    """A server as its requests name it."""
    name = host.encode("idna").decode() if not host.isascii() else host
    name = f"[{name}]" if ":" in name else name
    return name if port == _DEFAULT_PORT[context is not None] else f"{name}:{port}"
