"""What comes back over a connection is read as http.client reads it, in whatever pieces it comes; what is no answer is said to be none."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from typing import Any

import pytest
from minutehand.wire import Garbled, Said, Wire

OK = b"HTTP/1.1 200 OK\r\n"
LONG = b"x" * 300_000
ANSWERS = {
    "a length": OK + b"Content-Length: 2\r\nX-Amz-Crc32:  12\r\n\r\n{}",
    "no body": OK + b"content-length: 0\r\n\r\n",
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "an error": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\nx-amzn-query-error: A;Sender\r\n\r\n{}",
    "no reason": b"HTTP/1.1 503\r\nContent-Length: 2\r\n\r\n{}",
    "a long one": OK + b"Content-Length: 300000\r\n\r\n" + LONG,
    "chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab\r\nc\r\nA;x=y\r\n0123456789\r\n0\r\nLater: 1\r\n\r\n",
    "an error upto its end": b"HTTP/1.1 502 Bad Gateway\r\n\r\n<html>",
    "closed": OK + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}",
    "1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "in the meantime": b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\n{}",
}
LEFT_OPEN = {"a length", "no body", "204", "an error", "no reason", "a long one", "chunks", "in the meantime"}


@contextmanager
def answering(*pieces: bytes, asked: list[bytes] | None = None) -> Iterator[Wire]:
    """A connection whose other side says these pieces to the first request, one by one, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                (asked if asked is not None else []).append(client.recv(1 << 16))
                for piece in pieces:
                    client.sendall(piece)

        thread = threading.Thread(target=serve)
        thread.start()
        wire = Wire("127.0.0.1", server.getsockname()[1], "/aws", timeouts=(3, 3), context=None)
        yield wire
        wire.close()
        thread.join()


def by_http_client(said: bytes) -> HTTPResponse:
    class Socket:
        def makefile(self, *_: Any) -> io.BytesIO:
            return io.BytesIO(said)

    response = HTTPResponse(Socket(), method="POST")  # type: ignore[arg-type]
    response.begin()
    return response


def ask(wire: Wire) -> Said:
    return wire.post({"Content-Length": "2"}, b"{}")


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_an_answer_is_read_in_whatever_pieces_it_comes(name: str, size: int) -> None:
    said, size = ANSWERS[name], max(size, len(ANSWERS[name]) // 300)
    theirs = by_http_client(said)
    with answering(*(said[start : start + size] for start in range(0, len(said), size))) as wire:
        ours = ask(wire)
    assert (ours.status, ours.body) == (theirs.status, theirs.read())
    assert ours.headers == {header.lower(): value for header, value in theirs.headers.items()}
    assert ours.keeps == (name in LEFT_OPEN)


def test_a_request_says_where_it_goes_and_what_it_carries() -> None:
    asked: list[bytes] = []
    with answering(ANSWERS["a length"], asked=asked) as wire:
        port = wire.sock.getpeername()[1]
        wire.post({"X-Amz-Target": "T.Op", "Content-Length": "3"}, b"\x00\xff{")
    head, _, body = asked[0].partition(b"\r\n\r\n")
    said = [b"POST /aws HTTP/1.1", b"Host: 127.0.0.1:%d" % port, b"Accept-Encoding: identity"]
    assert head.split(b"\r\n") == [*said, b"X-Amz-Target: T.Op", b"Content-Length: 3"]
    assert body == b"\x00\xff{"


def test_a_length_may_be_said_twice_if_it_is_the_same() -> None:
    with answering(OK + b"Content-Length: 2\r\ncontent-length: 2\r\n\r\n{}") as wire:
        assert ask(wire) == Said(200, {"content-length": "2"}, b"{}", keeps=True)


def test_what_nobody_asked_for_is_not_the_next_answer() -> None:
    with answering(ANSWERS["a length"] + ANSWERS["no body"]) as wire:
        assert ask(wire) == Said(200, {"content-length": "2", "x-amz-crc32": "12"}, b"{}", keeps=False)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        OK + b"Content-Length: 3\r\n\r\n{}",
        OK + b"\r\n",  # it may have been cut anywhere: "no such row" is said as {}
        OK + b"\r\n{}",
        OK + b"Transfer-Encoding: gzip\r\n\r\n{}",
        OK + b"Content-Length : 2\r\n\r\n{}",
        OK + b"Content-Length: \r\n\r\n{}",
        OK + b"Content-Length: two\r\n\r\n{}",
        OK + b"Content-Length: -2\r\n\r\n{}",
        OK + b"Content-Length: +2\r\n\r\n{}",
        OK + b"Content-Length: 1_0\r\n\r\n0123456789",
        OK + b"Content-Length: 2, 2\r\n\r\n{}",
        OK + b"Content-Length: 7\r\nContent-Length: 2\r\n\r\n{}     ",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}junk\r\n0\r\n\r\n",
        b"HTTP/1.1 -12\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}",
        OK + b"Transfer-Encoding: chunked\r\n\r\n!\r\n{}\r\n0\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        OK + b"a: b\r\n" * 20_000,
    ],
)
def test_half_an_answer_or_none_is_none(said: bytes) -> None:
    with answering(said) as wire, pytest.raises((Garbled, ConnectionResetError)):
        ask(wire)
